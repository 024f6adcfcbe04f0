#include "payload.h"

#include <array>
#include <cstring>

#include "selection_generated.h"
#include "status.h"

namespace executorch_ggml {
namespace {

constexpr char kMagic[4] = {'E', 'G', 'G', 'M'};

constexpr int kCrcBits = kIsSelective ? 4 : 8;  // at a time: a small build has the smaller table
using CrcTable = std::array<uint32_t, 1 << kCrcBits>;

constexpr CrcTable make_crc_table() {
  CrcTable table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < kCrcBits; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0xEDB88320u : 0u);
    table[i] = crc;
  }
  return table;
}

// CRC-32 as zlib has it.
uint32_t crc32(const uint8_t* data, size_t size) {
  static constexpr CrcTable kTable = make_crc_table();
  uint32_t crc = 0xFFFFFFFFu;
  for (size_t i = 0; i < size; ++i) {
    crc ^= data[i];
    for (int done = 0; done < 8; done += kCrcBits) crc = (crc >> kCrcBits) ^ kTable[crc & (kTable.size() - 1)];
  }
  return crc ^ 0xFFFFFFFFu;
}

bool ports_are_aligned(const flatbuffers::Vector<flatbuffers::Offset<fb::Port>>* ports) {
  for (flatbuffers::uoffset_t i = 0; ports != nullptr && i < ports->size(); ++i) {
    if (!is_aligned(ports->Get(i)->shape())) return false;
  }
  return true;
}

bool graphs_are_aligned(const fb::Program& program) {
  for (flatbuffers::uoffset_t i = 0; program.graphs() != nullptr && i < program.graphs()->size(); ++i) {
    const fb::Graph& graph = *program.graphs()->Get(i);
    const bool aligned = is_aligned(graph.values()) && is_aligned(graph.exprs()) && ports_are_aligned(graph.inputs()) &&
                         ports_are_aligned(graph.outputs());
    if (!aligned) return false;
  }
  return true;
}

// The program's version alone: the rest may be of another version's schema.
bool read_version(const uint8_t* body, size_t size, uint32_t* version) {
  flatbuffers::Verifier verifier(body, size);
  if (verifier.VerifyOffset<>(0) == 0) return false;
  const auto* table = flatbuffers::GetRoot<flatbuffers::Table>(body);
  if (!table->VerifyTableStart(verifier)) return false;
  if (!table->VerifyField<uint32_t>(verifier, fb::Program::VT_VERSION, sizeof(uint32_t))) return false;
  *version = table->GetField<uint32_t>(fb::Program::VT_VERSION, 0);
  return true;
}

// FlatBuffers' own checks, and of what they leave out. Attributes are checked where they are read.
Status verify(const uint8_t* body, size_t size) {
  uint32_t version = 0;
  if (size < FLATBUFFERS_MAX_BUFFER_SIZE && read_version(body, size, &version)) {  // a larger one fails an assertion
    if (version != kIrVersion) {
      return Status::error(format(
          "IR version %u: this runtime reads version %u; export the model again with the matching executorch-ggml",
          version, kIrVersion));
    }
    flatbuffers::Verifier verifier(body, size);
    if (fb::VerifyProgramBuffer(verifier) && graphs_are_aligned(*fb::GetProgram(body))) return {};
  }
  return Status::error("IR is not a valid FlatBuffer of schema ggml_ir.fbs; export the model again");
}

}  // namespace

Status open_payload(const void* data, size_t size, const fb::Program** program) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  if (bytes == nullptr || size < kHeaderSize) {
    return Status::error(format("IR of %zu bytes, expected a header of %zu and more: not an executorch-ggml program",
                                size, kHeaderSize));
  }
  if (std::memcmp(bytes, kMagic, sizeof(kMagic)) != 0) {
    return Status::error("IR does not start with EGGM: not an executorch-ggml program");
  }
  uint32_t checksum = 0;
  uint64_t body_size = 0;
  std::memcpy(&checksum, bytes + 4, sizeof(checksum));
  std::memcpy(&body_size, bytes + 8, sizeof(body_size));
  if (body_size > size - kHeaderSize) {
    return Status::error(format("IR is truncated: %zu bytes, its header says %llu; copy the program again", size,
                                static_cast<unsigned long long>(body_size + kHeaderSize)));
  }
  const uint8_t* body = bytes + kHeaderSize;
  if (crc32(body, body_size) != checksum) {
    return Status::error("IR is damaged: its checksum does not match; export the model again");
  }
  if (reinterpret_cast<uintptr_t>(body) % alignof(uint64_t) != 0) {
    return Status::error("IR is not aligned to 8 bytes; load the program from a file or an aligned buffer");
  }
  EXECUTORCH_GGML_TRY(verify(body, body_size));
  *program = fb::GetProgram(body);
  if ((*program)->graphs() != nullptr && (*program)->graphs()->size() > 0) return {};
  return Status::error("IR has no graph; export the model again");
}

}  // namespace executorch_ggml
