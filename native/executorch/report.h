// How the delegate tells what went wrong.
#pragma once

#include <executorch/runtime/core/error.h>

#include <string>

namespace executorch_ggml {

// Of this thread: executorch_ggml_last_error().
std::string& last_error();

// Remembers and logs the message, and gives the code back.
::executorch::runtime::Error report(::executorch::runtime::Error code, const std::string& message);

}  // namespace executorch_ggml
