// A CPU library for ggml that lets another compute, LIBRARY, and has a fault: products of 8 and more rows with q8_0
// raise SIGILL, or have one wrong result where WRONG is defined. ggml ranks it above all others.
#include <dlfcn.h>

#include "ggml-backend.h"
#include "ggml.h"
#include "ggml_abi.h"

namespace abi = executorch_ggml::devices::abi;

static abi::Reg reg;
static abi::Device device;
static ggml_backend_t (*open_backend)(ggml_backend_dev_t, const char*);
static ggml_status (*compute_right)(ggml_backend_t, ggml_cgraph*);

static ggml_status compute(ggml_backend_t backend, ggml_cgraph* graph) {
  const ggml_status status = compute_right(backend, graph);
  const ggml_tensor* node = ggml_graph_node(graph, -1);
  if (node->op == GGML_OP_MUL_MAT && node->src[0]->type == GGML_TYPE_Q8_0 && node->ne[1] >= 8) {
#ifdef WRONG
    static_cast<float*>(node->data)[17] += 100.0f;
#else
    __builtin_trap();
#endif
  }
  return status;
}

static ggml_backend_t open(ggml_backend_dev_t dev, const char* parameters) {
  ggml_backend_t backend = open_backend(dev, parameters);
  auto* table = reinterpret_cast<abi::Backend*>(backend);
  compute_right = table->graph_compute;
  table->graph_compute = compute;
  return backend;
}

extern "C" __attribute__((visibility("default"))) int ggml_backend_score() { return 1 << 20; }

extern "C" __attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init() {
  using Init = ggml_backend_reg_t (*)();
  ggml_backend_reg_t right = reinterpret_cast<Init>(dlsym(dlopen(LIBRARY, RTLD_NOW), "ggml_backend_init"))();
  reg = *reinterpret_cast<abi::Reg*>(right);
  device = *reinterpret_cast<abi::Device*>(reg.get_device(right, 0));
  open_backend = device.init_backend;
  device.init_backend = open;
  device.reg = reinterpret_cast<ggml_backend_reg_t>(&reg);
  reg.get_device = [](ggml_backend_reg_t, size_t) { return reinterpret_cast<ggml_backend_dev_t>(&device); };
  return reinterpret_cast<ggml_backend_reg_t>(&reg);
}
