// The head of a .pte or .ptd file: which bytes are its FlatBuffer, and where its segments (the weights) lie.
#pragma once

#include <cstddef>
#include <cstdint>

#include "result.h"

namespace executorch_ggml {

constexpr size_t kFileHead = 64;  // bytes that ExecuTorch reads to find the rest

struct FileLayout {
  uint64_t size = 0;        // of the file
  uint64_t flatbuffer = 0;  // bytes of it, from the file's first
  uint64_t segments = 0;    // where they begin; 0: there are none
};

// Read the first bytes (kFileHead of them, or the whole file) of a file of `size` bytes.
Status read_program_layout(const uint8_t* head, uint64_t size, FileLayout* layout);
Status read_data_layout(const uint8_t* head, uint64_t size, FileLayout* layout);

// A part of a file, told from its segments' beginning.
struct Segment {
  uint64_t offset = 0;
  uint64_t size = 0;
};

// Fails where a segment ends after the file.
Status check_segment(const FileLayout& layout, uint64_t index, const Segment& segment);

}  // namespace executorch_ggml
