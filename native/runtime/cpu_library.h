// ggml's CPU library. Its packages may have several, compiled for different processors; ggml loads the best that this
// one runs, by what cpuid says. Here EXECUTORCH_GGML_CPU limits the choice, and what is loaded is proved first.
#pragma once

#include <string>

#include "ggml-backend.h"
#include "kernels/simd/isa.h"
#include "result.h"

namespace executorch_ggml {

struct CpuLibrary {
  std::string path;
  kernels::Isa isa;  // the instruction set that it was compiled for
};

CpuLibrary library_of(ggml_backend_dev_t cpu);

// Load the backends of a folder into ggml, unless the host program has loaded its own. An error where the CPU's library
// uses more than EXECUTORCH_GGML_CPU allows and no other can take its place, or where it computes wrongly.
Status load_cpu_library(const std::string& folder);

// Prove one library, as load_cpu_library does and with more numbers of rows, in a process that has no other use;
// `*runs` is false where it is for another processor.
Status prove_cpu_library(const std::string& path, bool* runs);

}  // namespace executorch_ggml
