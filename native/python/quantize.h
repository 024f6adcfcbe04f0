// ggml's quantizer and panels of quantized matrices, for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace executorch_ggml {

void add_quantizer(nanobind::module_& m);

}  // namespace executorch_ggml
