// The tables of functions by which ggml calls a device: declared here, since no ggml package has them in a header.
//
// There are versions of them. 2 and 3 differ in the buffer type alone. A ggml of another version is not served; nor one
// that calls itself version 2 but is from before the 2d copies, which has shorter tables.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ggml-backend.h"
#include "ggml.h"

namespace executorch_ggml::devices {

// In C's way, as ggml has them. What says so may be null.
namespace abi {

struct BufferTypeV2 {
  const char* (*get_name)(ggml_backend_buffer_type_t);
  ggml_backend_buffer_t (*alloc_buffer)(ggml_backend_buffer_type_t, size_t);
  size_t (*get_alignment)(ggml_backend_buffer_type_t);
  size_t (*get_max_size)(ggml_backend_buffer_type_t);                        // may be null
  size_t (*get_alloc_size)(ggml_backend_buffer_type_t, const ggml_tensor*);  // may be null
  bool (*is_host)(ggml_backend_buffer_type_t);                               // may be null
  ggml_backend_dev_t device;
  void* context;
};

struct BufferTypeV3 {
  const char* (*get_name)(ggml_backend_buffer_type_t);
  ggml_backend_buffer_t (*alloc_buffer)(ggml_backend_buffer_type_t, size_t);
  ggml_backend_buffer_t (*alloc_buffer_n)(ggml_backend_buffer_type_t, ggml_tensor**, int);  // may be null
  size_t (*get_alignment)(ggml_backend_buffer_type_t);
  size_t (*get_max_size)(ggml_backend_buffer_type_t);                          // may be null
  size_t (*get_alloc_size)(ggml_backend_buffer_type_t, const ggml_tensor*);    // may be null
  size_t (*get_alloc_size_n)(ggml_backend_buffer_type_t, ggml_tensor**, int);  // may be null
  bool (*is_host)(ggml_backend_buffer_type_t);                                 // may be null
  ggml_backend_dev_t device;
  void* context;
};

struct BufferTable {
  void (*free_buffer)(ggml_backend_buffer_t);  // may be null
  void* (*get_base)(ggml_backend_buffer_t);
  ggml_status (*init_tensor)(ggml_backend_buffer_t, ggml_tensor*);  // may be null
  void (*memset_tensor)(ggml_backend_buffer_t, ggml_tensor*, uint8_t, size_t, size_t);
  void (*set_tensor)(ggml_backend_buffer_t, ggml_tensor*, const void*, size_t, size_t);
  void (*get_tensor)(ggml_backend_buffer_t, const ggml_tensor*, void*, size_t, size_t);
  void (*set_tensor_2d)(ggml_backend_buffer_t, ggml_tensor*, const void*, size_t, size_t, size_t, size_t,
                        size_t);  // may be null
  void (*get_tensor_2d)(ggml_backend_buffer_t, const ggml_tensor*, void*, size_t, size_t, size_t, size_t,
                        size_t);                                                // may be null
  bool (*cpy_tensor)(ggml_backend_buffer_t, const ggml_tensor*, ggml_tensor*);  // may be null
  void (*clear)(ggml_backend_buffer_t, uint8_t);
  void (*reset)(ggml_backend_buffer_t);  // may be null
};

struct Buffer {
  BufferTable table;
  ggml_backend_buffer_type_t type;
  void* context;
  size_t size;
  ggml_backend_buffer_usage usage;
};

using BufferInit = ggml_backend_buffer_t (*)(ggml_backend_buffer_type_t, BufferTable, void*, size_t);

struct Backend {
  ggml_guid_t guid;
  const char* (*get_name)(ggml_backend_t);
  void (*free)(ggml_backend_t);
  // Copies that need not be done on return; all may be null.
  void (*set_tensor_async)(ggml_backend_t, ggml_tensor*, const void*, size_t, size_t);
  void (*get_tensor_async)(ggml_backend_t, const ggml_tensor*, void*, size_t, size_t);
  void (*set_tensor_2d_async)(ggml_backend_t, ggml_tensor*, const void*, size_t, size_t, size_t, size_t, size_t);
  void (*get_tensor_2d_async)(ggml_backend_t, const ggml_tensor*, void*, size_t, size_t, size_t, size_t, size_t);
  bool (*cpy_tensor_async)(ggml_backend_t, ggml_backend_t, const ggml_tensor*, ggml_tensor*);
  void (*synchronize)(ggml_backend_t);  // may be null
  // Plans; all may be null.
  ggml_backend_graph_plan_t (*graph_plan_create)(ggml_backend_t, const ggml_cgraph*);
  void (*graph_plan_free)(ggml_backend_t, ggml_backend_graph_plan_t);
  void (*graph_plan_update)(ggml_backend_t, ggml_backend_graph_plan_t, const ggml_cgraph*);
  ggml_status (*graph_plan_compute)(ggml_backend_t, ggml_backend_graph_plan_t);
  ggml_status (*graph_compute)(ggml_backend_t, ggml_cgraph*);
  // All may be null; the last one's parameters differ from version to version.
  void (*event_record)(ggml_backend_t, ggml_backend_event_t);
  void (*event_wait)(ggml_backend_t, ggml_backend_event_t);
  void (*graph_optimize)();
  ggml_backend_dev_t device;
  void* context;
};

struct Device {
  const char* (*get_name)(ggml_backend_dev_t);
  const char* (*get_description)(ggml_backend_dev_t);
  void (*get_memory)(ggml_backend_dev_t, size_t*, size_t*);
  enum ggml_backend_dev_type (*get_type)(ggml_backend_dev_t);
  void (*get_props)(ggml_backend_dev_t, ggml_backend_dev_props*);
  ggml_backend_t (*init_backend)(ggml_backend_dev_t, const char*);
  ggml_backend_buffer_type_t (*get_buffer_type)(ggml_backend_dev_t);
  ggml_backend_buffer_type_t (*get_host_buffer_type)(ggml_backend_dev_t);                    // may be null
  ggml_backend_buffer_t (*buffer_from_host_ptr)(ggml_backend_dev_t, void*, size_t, size_t);  // may be null
  bool (*supports_op)(ggml_backend_dev_t, const ggml_tensor*);
  bool (*supports_buft)(ggml_backend_dev_t, ggml_backend_buffer_type_t);
  bool (*offload_op)(ggml_backend_dev_t, const ggml_tensor*);  // may be null
  // All may be null.
  ggml_backend_event_t (*event_new)(ggml_backend_dev_t);
  void (*event_free)(ggml_backend_dev_t, ggml_backend_event_t);
  void (*event_synchronize)(ggml_backend_dev_t, ggml_backend_event_t);
  ggml_backend_reg_t reg;
  void* context;
};

struct Reg {
  int api_version;
  const char* (*get_name)(ggml_backend_reg_t);
  size_t (*get_device_count)(ggml_backend_reg_t);
  ggml_backend_dev_t (*get_device)(ggml_backend_reg_t, size_t);
  void* (*get_proc_address)(ggml_backend_reg_t, const char*);  // may be null
  void* context;
};

}  // namespace abi
}  // namespace executorch_ggml::devices
