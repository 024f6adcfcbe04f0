#include "file_layout.h"

#include <cinttypes>
#include <cstring>

#include "status.h"

namespace executorch_ggml {
namespace {

constexpr size_t kIdentifierAt = 4;  // after the offset of the root table
constexpr size_t kHeaderAt = 8;
constexpr size_t kLengthAt = kHeaderAt + 4;
constexpr size_t kFieldsAt = kLengthAt + 4;
constexpr uint64_t kLeastFlatBuffer = kHeaderAt + 4;

uint64_t read_field(const uint8_t* head, size_t index) {
  uint64_t value = 0;
  std::memcpy(&value, head + kFieldsAt + index * sizeof(value), sizeof(value));
  return value;
}

uint32_t header_length(const uint8_t* head) {
  uint32_t length = 0;
  std::memcpy(&length, head + kLengthAt, sizeof(length));
  return length;
}

constexpr uint32_t header_length_of(size_t fields) { return static_cast<uint32_t>(kFieldsAt - kHeaderAt + 8 * fields); }

Status check_identifier(const uint8_t* head, uint64_t size, const char* expected, const char* kind) {
  if (size < kFileHead) {
    return Status::error(
        format("not an ExecuTorch %s: it has %" PRIu64 " bytes, expected %zu and more", kind, size, kFileHead));
  }
  if (std::memcmp(head + kIdentifierAt, expected, 4) == 0) return {};
  const std::string found(reinterpret_cast<const char*>(head) + kIdentifierAt, 4);
  return Status::error(
      format("not an ExecuTorch %s: bytes 4 to 8 are \"%s\", expected %s", kind, readable(found).c_str(), expected));
}

// `data` bytes of segments; 0: unknown.
Status check_layout(const FileLayout& layout, uint64_t data) {
  if (layout.flatbuffer < kLeastFlatBuffer || layout.flatbuffer > layout.size) {
    return Status::error(format("its header says that the FlatBuffer has %" PRIu64 " bytes, and the file has %" PRIu64,
                                layout.flatbuffer, layout.size));
  }
  if (layout.segments == 0) return {};
  if (layout.segments < layout.flatbuffer || layout.segments > layout.size) {
    return Status::error(format("its header says that the segments begin at byte %" PRIu64 ", expected %" PRIu64
                                " to %" PRIu64,
                                layout.segments, layout.flatbuffer, layout.size));
  }
  if (data > layout.size - layout.segments) {
    return Status::error(format("it is truncated: its header says %" PRIu64 " bytes of segments from byte %" PRIu64
                                " on, and the file has %" PRIu64 " bytes",
                                data, layout.segments, layout.size));
  }
  return {};
}

}  // namespace

Status read_program_layout(const uint8_t* head, uint64_t size, FileLayout* layout) {
  EXECUTORCH_GGML_TRY(check_identifier(head, size, "ET12", "program"));
  *layout = {size, size, 0};
  if (std::memcmp(head + kHeaderAt, "eh00", 4) != 0) return {};  // all of the file is the FlatBuffer
  const uint32_t length = header_length(head);
  if (length < header_length_of(2)) {
    return Status::error(format("its header has %u bytes, expected %u or more", length, header_length_of(2)));
  }
  layout->flatbuffer = read_field(head, 0);
  layout->segments = read_field(head, 1);
  return check_layout(*layout, length >= header_length_of(3) ? read_field(head, 2) : 0);
}

Status read_data_layout(const uint8_t* head, uint64_t size, FileLayout* layout) {
  EXECUTORCH_GGML_TRY(check_identifier(head, size, "FT01", "data file"));
  if (std::memcmp(head + kHeaderAt, "FH01", 4) != 0 || header_length(head) < header_length_of(4)) {
    return Status::error("its header is damaged: expected FH01 and a length of 40 or more at byte 8");
  }
  const uint64_t offset = read_field(head, 0);
  const uint64_t flatbuffer = read_field(head, 1);
  if (offset > size || flatbuffer > size - offset) {
    return Status::error(format("its header says that the FlatBuffer has %" PRIu64 " bytes from byte %" PRIu64
                                " on, and the file has %" PRIu64,
                                flatbuffer, offset, size));
  }
  *layout = {size, offset + flatbuffer, read_field(head, 2)};
  return check_layout(*layout, read_field(head, 3));
}

Status check_segment(const FileLayout& layout, uint64_t index, const Segment& segment) {
  const uint64_t room = layout.segments == 0 ? 0 : layout.size - layout.segments;
  if (segment.offset <= room && segment.size <= room - segment.offset) return {};
  return Status::error(format("segment %" PRIu64 " has %" PRIu64 " bytes from byte %" PRIu64
                              " of the segments on, and they have %" PRIu64,
                              index, segment.size, segment.offset, room));
}

}  // namespace executorch_ggml
