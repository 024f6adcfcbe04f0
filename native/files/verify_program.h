// Checks a .pte file before ExecuTorch reads it, which takes much of its contents for granted: what it does not check
// itself ends in an access out of bounds, a call of abort() or a wrong answer.
#pragma once

#include "file_layout.h"
#include "program_generated.h"
#include "verify_data.h"

namespace executorch_ggml {

// `flatbuffer` has layout.flatbuffer bytes, aligned to 16; `data` is the data file's, where there is one. Reads no
// weights.
Status verify_program(const uint8_t* flatbuffer, const FileLayout& layout, const DataNames* data);

// The same for one method of a program whose lists (segments, constants, names, inline payloads) were checked.
Status verify_method(const pte::Program& program, const pte::ExecutionPlan& plan, const DataNames* data);

}  // namespace executorch_ggml
