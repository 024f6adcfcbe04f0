// Whether ggml's products are right on this CPU. A library may have been compiled for another processor, or by a
// compiler with a fault, which is seen first where a program dies of SIGILL or computes something else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "result.h"

namespace executorch_ggml {

// Multiply random matrices of each of ggml's types, in each of the device's layouts, with some numbers of rows, and
// compare with sums in double. A signal of the CPU on the way is an error like a wrong result. `library` names the
// device in messages.
Status prove_products(ggml_backend_dev_t cpu, const std::string& library, const std::vector<int64_t>& rows);

}  // namespace executorch_ggml
