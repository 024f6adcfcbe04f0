// The C interface of DLPack 1.x by which torch takes and gives tensors with no Python in between: the capsule
// "dlpack_exchange_api" at torch.Tensor.__dlpack_c_exchange_api__.
#pragma once

#include <cstdint>

namespace executorch_ggml::dlpack {

struct Version {
  uint32_t major;
  uint32_t minor;
};

struct Device {
  int32_t type;
  int32_t id;
};
constexpr int32_t kCpu = 1;

enum Code : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBool = 6 };

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements
  uint64_t byte_offset;
};

// A tensor that whoever holds it ends with `deleter`.
struct ManagedTensor {
  Version version;
  void* context;
  void (*deleter)(ManagedTensor*);
  uint64_t flags;
  Tensor tensor;
};

// Functions return 0, or -1 with a Python exception set.
struct ExchangeApi {
  Version version;
  ExchangeApi* previous;
  int (*allocate)(Tensor* prototype, ManagedTensor** out, void* context,
                  void (*set_error)(void* context, const char* kind, const char* message));
  int (*managed_from_object)(void* object, ManagedTensor** out);
  int (*object_from_managed)(ManagedTensor* tensor, void** out);  // takes the tensor over
  int (*tensor_from_object)(void* object, Tensor* out);           // which goes on owning it
  int (*current_stream)(int32_t device_type, int32_t device, void** out);
};

}  // namespace executorch_ggml::dlpack
