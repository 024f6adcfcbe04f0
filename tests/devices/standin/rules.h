// Which ops a kind of device computes, as ggml's own backends say: facts of ggml 0.20.2.
#pragma once

#include "ggml.h"

namespace standin {

// ggml-cuda on a GPU with tensor cores.
bool cuda_supports(const ggml_tensor* op);

// ggml-vulkan on a GPU with subgroup arithmetic and enough memory.
bool vulkan_supports(const ggml_tensor* op);

// ggml-rpc: a server is not asked, and anything goes.
bool rpc_supports(const ggml_tensor* op);

}  // namespace standin
