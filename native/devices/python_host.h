// The Python that computes: the one that runs in this process, or one that is started in it.
#pragma once

#include <string>

namespace executorch_ggml::devices {

// Run Python code in this process, on this thread. The first call finds the interpreter, and where there is none finds
// and starts one, which is then never ended. On failure `error` says why; the code must catch its own exceptions.
bool run_python(const std::string& code, std::string* error);

// Whether Python can be called: false once it ends.
bool python_is_alive();

// Let Python's main thread handle a SIGINT when it next can, where Python handles that signal at all.
void interrupt_python();

}  // namespace executorch_ggml::devices
