// GGUF files for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace executorch_ggml {

void add_gguf_file(nanobind::module_& m);

}  // namespace executorch_ggml
