#include "storage.h"

#include <algorithm>
#include <cstring>

#include "formulas.h"
#include "kernels/product/panels.h"
#include "status.h"

namespace executorch_ggml {
namespace {

constexpr int64_t kBlock = 16;  // output channels of a block
constexpr int64_t kAdjacentBytes = 4;
constexpr int64_t kSumBytes = 4;  // of each channel of int8, an int32 behind its block

// A weight in blocks: groups of output channels, each with taps by input channels.
struct Blocks {
  int64_t groups;
  int64_t outputs;  // channels of a group
  int64_t inputs;   // channels of a group
  int64_t taps;
  int64_t item;  // bytes of an element

  int64_t blocks() const { return (outputs + kBlock - 1) / kBlock; }
  // Inputs of a channel that lie side by side, for instructions that sum their products: 4 bytes of them.
  int64_t adjacent() const { return kAdjacentBytes / item; }
  int64_t depth() const { return (taps * inputs + adjacent() - 1) / adjacent() * adjacent(); }
  int64_t block_size() const { return kBlock * (depth() + (item == 1 ? kSumBytes : 0)); }
  // Of the k-th input of a channel of a block.
  int64_t place(int64_t k, int64_t channel) const {
    return (k / adjacent() * kBlock + channel) * adjacent() + k % adjacent();
  }
};

Blocks blocks_of(const StorageLayout& layout, const ggml_tensor* t) {
  const auto item = static_cast<int64_t>(ggml_type_size(t->type));
  if (layout.kind == Storage::MatrixBlocks) return {1, t->ne[1], t->ne[0], 1, item};
  return {layout.groups, t->ne[3] / layout.groups, t->ne[2], t->ne[0] * t->ne[1], item};
}

// Calls `move(stored, plain)` with the places of each element. Layouts move elements and do not look at them.
template <class Move>
void each_element(const StorageLayout& layout, const ggml_tensor* tensor, const Move& move) {
  if (layout.kind == Storage::Depthwise) {
    const int64_t taps = tensor->ne[0] * tensor->ne[1];
    for (int64_t channel = 0; channel < layout.groups; ++channel) {
      for (int64_t tap = 0; tap < taps; ++tap) move(tap * layout.groups + channel, channel * taps + tap);
    }
    return;
  }
  const Blocks b = blocks_of(layout, tensor);
  for (int64_t group = 0; group < b.groups; ++group) {
    for (int64_t output = 0; output < b.outputs; ++output) {
      const int64_t block = (group * b.blocks() + output / kBlock) * b.block_size();
      const int64_t row = (group * b.outputs + output) * b.inputs * b.taps;
      for (int64_t input = 0; input < b.inputs; ++input) {
        for (int64_t tap = 0; tap < b.taps; ++tap) {
          move(block + b.place(tap * b.inputs + input, output % kBlock), row + input * b.taps + tap);
        }
      }
    }
  }
}

// The int32 sums of each channel, behind its block of int8.
void add_sums(const StorageLayout& layout, const ggml_tensor* tensor, void* stored) {
  if (layout.kind == Storage::Depthwise) return;
  const Blocks b = blocks_of(layout, tensor);
  const int64_t bytes = b.depth() * kBlock;
  for (int64_t block = 0; block < b.groups * b.blocks(); ++block) {
    auto* weights = static_cast<int8_t*>(stored) + block * b.block_size();
    int32_t sums[kBlock] = {};
    for (int64_t i = 0; i < bytes; ++i) sums[i / b.adjacent() % kBlock] += weights[i];
    std::memcpy(weights + bytes, sums, sizeof(sums));
  }
}

// Elements of one, two or four bytes.
template <class T>
void unpack_elements(const StorageLayout& layout, const ggml_tensor* tensor, const void* stored, void* plain) {
  const auto* from = static_cast<const T*>(stored);
  auto* to = static_cast<T*>(plain);
  each_element(layout, tensor, [&](int64_t in_stored, int64_t in_plain) { to[in_plain] = from[in_stored]; });
}

template <class T>
void pack_elements(const StorageLayout& layout, const ggml_tensor* tensor, const void* plain, void* stored) {
  const auto* from = static_cast<const T*>(plain);
  auto* to = static_cast<T*>(stored);
  each_element(layout, tensor, [&](int64_t in_stored, int64_t in_plain) { to[in_stored] = from[in_plain]; });
}

}  // namespace

Status check_storage(const StorageLayout& layout, const ggml_tensor* tensor) {
  const size_t item = ggml_type_size(tensor->type);
  if (layout.kind == Storage::Plain) return {};
  if (static_cast<int>(layout.kind) > kStorageMax) {
    return Status::error(
        format("storage layout #%d is unknown to this runtime; update executorch-ggml", static_cast<int>(layout.kind)));
  }
  const bool elements = ggml_blck_size(tensor->type) == 1 && (item == 2 || item == 4 || tensor->type == GGML_TYPE_I8);
  const bool panels = layout.kind == Storage::Panels;
  const bool is_matrix = tensor->ne[2] == 1 && tensor->ne[3] == 1;
  const bool matrix = is_matrix || (layout.kind != Storage::MatrixBlocks && !panels);
  const bool grouped = layout.groups >= 1 && tensor->ne[3] % layout.groups == 0;
  const bool depthwise = layout.kind != Storage::Depthwise || (layout.groups == tensor->ne[3] && tensor->ne[2] == 1);
  // Blocks are at most 64 times as large as what is in them, and int8's have a sum each, and a run of zeros follows.
  // Panels are at most 17 times as large.
  const bool small = count({tensor->ne[0], tensor->ne[1], tensor->ne[2], tensor->ne[3]}) < INT64_MAX / 128;
  const bool typed = panels ? kernels::has_panels(tensor->type) : elements;
  if (typed && matrix && depthwise && small && (layout.kind == Storage::MatrixBlocks || grouped)) return {};
  return Status::error(
      format("storage layout #%d with %lld groups does not fit its type and dims; export the model again",
             static_cast<int>(layout.kind), static_cast<long long>(layout.groups)));
}

size_t stored_bytes(const StorageLayout& layout, const ggml_tensor* tensor) {
  if (layout.kind == Storage::Plain || layout.kind == Storage::Depthwise) return ggml_nbytes(tensor);
  if (layout.kind == Storage::Panels) return kernels::panels_bytes(tensor->type, tensor->ne[0], tensor->ne[1]);
  const Blocks b = blocks_of(layout, tensor);
  const int64_t zeros = b.item == 1 ? 0 : b.inputs;
  return static_cast<size_t>((b.groups * b.blocks() * b.block_size() + zeros) * b.item);
}

void unpack(const StorageLayout& layout, const ggml_tensor* tensor, const void* stored, void* plain) {
  if (layout.kind == Storage::Panels) {
    return kernels::unpack_panels(tensor->type, tensor->ne[0], tensor->ne[1], stored, plain);
  }
  const size_t item = ggml_type_size(tensor->type);
  if (item == 4) return unpack_elements<uint32_t>(layout, tensor, stored, plain);
  if (item == 2) return unpack_elements<uint16_t>(layout, tensor, stored, plain);
  unpack_elements<uint8_t>(layout, tensor, stored, plain);
}

void pack(const StorageLayout& layout, const ggml_tensor* tensor, const void* plain, void* stored) {
  if (layout.kind == Storage::Panels) {
    return kernels::pack_panels(tensor->type, tensor->ne[0], tensor->ne[1], plain, stored);
  }
  std::memset(stored, 0, stored_bytes(layout, tensor));  // what pads blocks, and follows them
  const size_t item = ggml_type_size(tensor->type);
  if (item == 4) return pack_elements<uint32_t>(layout, tensor, plain, stored);
  if (item == 2) return pack_elements<uint16_t>(layout, tensor, plain, stored);
  pack_elements<uint8_t>(layout, tensor, plain, stored);
  add_sums(layout, tensor, stored);
}

}  // namespace executorch_ggml
