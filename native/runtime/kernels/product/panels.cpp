#include "kernels/product/panels.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "kernels/kernels.h"
#include "kernels/partition.h"
#include "kernels/scratch.h"
#include "selection_generated.h"

namespace executorch_ggml::kernels {
namespace {

// Four bytes at a time, which are one column's of a row of a panel.
using Word = uint32_t;

constexpr Word kNibbles = 0x0f0f0f0f;
constexpr Word kPairs = 0x03030303;
constexpr int64_t kWord = sizeof(Word);

Word word(const uint8_t* from) {
  Word x;
  std::memcpy(&x, from, sizeof(x));
  return x;
}

void set_word(uint8_t* to, Word x) { std::memcpy(to, &x, sizeof(x)); }

// Of two blocks of weights whose nibbles share bytes, as in ggml's: `from` has the first one's below the second one's.
void pack_nibbles(const uint8_t* from, int64_t column, PanelNibbles* first, PanelNibbles* second) {
  for (int64_t q = 0; q < 4; ++q) {
    const Word a = word(from + kWord * q);
    const Word b = word(from + 16 + kWord * q);
    set_word((*first)[q] + kWord * column, (a & kNibbles) | (b & kNibbles) << 4);
    set_word((*second)[q] + kWord * column, (a >> 4 & kNibbles) | (b & ~kNibbles));
  }
}

void unpack_nibbles(const PanelNibbles& first, const PanelNibbles& second, int64_t column, uint8_t* to) {
  for (int64_t q = 0; q < 4; ++q) {
    const Word x = word(first[q] + kWord * column);
    const Word y = word(second[q] + kWord * column);
    set_word(to + kWord * q, (x & kNibbles) | (y & kNibbles) << 4);
    set_word(to + 16 + kWord * q, (x >> 4 & kNibbles) | (y & ~kNibbles));
  }
}

// The bits 2 * i of word k become the bits 2 * k of word i: its own inverse.
void transpose_pairs(const Word (&from)[4], Word (&to)[4]) {
  for (int i = 0; i < 4; ++i) {
    to[i] = 0;
    for (int k = 0; k < 4; ++k) to[i] |= (from[k] >> 2 * i & kPairs) << 2 * k;
  }
}

// How a block lies in its column of a group, by type.

struct Q4_0Panels {
  using Block = Q4_0Block;
  using Group = Q4_0Group;

  static void pack(const Block& block, int64_t column, Group* to) {
    to->scale[column] = block.scale;
    for (int64_t q = 0; q < 4; ++q) set_word(to->low[q] + kWord * column, word(block.low + kWord * q));
  }
  static void unpack(const Group& group, int64_t column, Block* to) {
    to->scale = group.scale[column];
    for (int64_t q = 0; q < 4; ++q) set_word(to->low + kWord * q, word(group.low[q] + kWord * column));
  }
};

struct Q4KPanels {
  using Block = Q4KBlock;
  using Group = Q4KGroup;

  static void pack(const Block& block, int64_t column, Group* to) {
    to->scale[column] = block.scale;
    to->min[column] = block.min;
    const uint8_t* six = block.parts;
    for (int64_t i = 0; i < 4; ++i) {
      to->parts[i].scale[column] = six[i] & 63;
      to->parts[i].min[column] = six[i + 4] & 63;
      to->parts[i + 4].scale[column] = static_cast<uint8_t>((six[i + 8] & 15) | (six[i] >> 6 << 4));
      to->parts[i + 4].min[column] = static_cast<uint8_t>(six[i + 8] >> 4 | (six[i + 4] >> 6 << 4));
    }
    for (int64_t i = 0; i < 4; ++i) {
      pack_nibbles(block.low + 32 * i, column, &to->parts[2 * i].low, &to->parts[2 * i + 1].low);
    }
  }
  static void unpack(const Group& group, int64_t column, Block* to) {
    to->scale = group.scale[column];
    to->min = group.min[column];
    for (int64_t i = 0; i < 4; ++i) {
      const int scale = group.parts[i + 4].scale[column];
      const int min = group.parts[i + 4].min[column];
      to->parts[i] = static_cast<uint8_t>((group.parts[i].scale[column] & 63) | (scale >> 4 << 6));
      to->parts[i + 4] = static_cast<uint8_t>((group.parts[i].min[column] & 63) | (min >> 4 << 6));
      to->parts[i + 8] = static_cast<uint8_t>((scale & 15) | (min & 15) << 4);
    }
    for (int64_t i = 0; i < 4; ++i) {
      unpack_nibbles(group.parts[2 * i].low, group.parts[2 * i + 1].low, column, to->low + 32 * i);
    }
  }
};

struct Q6KPanels {
  using Block = Q6KBlock;
  using Group = Q6KGroup;

  static void pack(const Block& block, int64_t column, Group* to) {
    to->scale[column] = block.scale;
    for (int64_t i = 0; i < 16; ++i) to->parts[i / 2].scale[i % 2][column] = block.scales[i];
    for (int64_t half = 0; half < 2; ++half) {
      auto* parts = to->parts + 4 * half;
      for (int64_t i = 0; i < 2; ++i) {
        pack_nibbles(block.low + 64 * half + 32 * i, column, &parts[i].low, &parts[i + 2].low);
        Word fours[4], pairs[4];
        for (int64_t k = 0; k < 4; ++k) fours[k] = word(block.high + 32 * half + kWord * (2 * k + i));
        transpose_pairs(fours, pairs);
        for (int64_t k = 0; k < 4; ++k) set_word(parts[k].high[i] + kWord * column, pairs[k]);
      }
    }
  }
  static void unpack(const Group& group, int64_t column, Block* to) {
    to->scale = group.scale[column];
    for (int64_t i = 0; i < 16; ++i) to->scales[i] = group.parts[i / 2].scale[i % 2][column];
    for (int64_t half = 0; half < 2; ++half) {
      const auto* parts = group.parts + 4 * half;
      for (int64_t i = 0; i < 2; ++i) {
        unpack_nibbles(parts[i].low, parts[i + 2].low, column, to->low + 64 * half + 32 * i);
        Word pairs[4], fours[4];
        for (int64_t k = 0; k < 4; ++k) pairs[k] = word(parts[k].high[i] + kWord * column);
        transpose_pairs(pairs, fours);
        for (int64_t k = 0; k < 4; ++k) set_word(to->high + 32 * half + kWord * (2 * k + i), fours[k]);
      }
    }
  }
};

template <class Panels>
struct Layout {
  using Block = typename Panels::Block;
  using Group = typename Panels::Group;

  static int64_t groups(int64_t length) { return length / (kPanelBlock * Group::kBlocks); }

  static size_t bytes(int64_t length) { return static_cast<size_t>(groups(length)) * sizeof(Group); }

  static void pack(int64_t length, int64_t columns, const void* matrix, void* panels) {
    const auto* blocks = static_cast<const Block*>(matrix);
    auto* group = static_cast<Group*>(panels);
    const int64_t count = groups(length);
    for (int64_t first = 0; first < columns; first += kPanelColumns) {
      const int64_t width = std::min(kPanelColumns, columns - first);
      for (int64_t i = 0; i < count; ++i, ++group) {
        if (width < kPanelColumns) *group = {};
        for (int64_t column = 0; column < width; ++column) {
          Panels::pack(blocks[(first + column) * count + i], column, group);
        }
      }
    }
  }

  static void unpack(int64_t length, int64_t columns, const void* panels, void* matrix) {
    const size_t row = static_cast<size_t>(groups(length)) * sizeof(Block);
    for (int64_t column = 0; column < columns; ++column) {
      unpack_column(length, column, panels, static_cast<char*>(matrix) + static_cast<size_t>(column) * row);
    }
  }

  static void unpack_column(int64_t length, int64_t column, const void* panels, void* to) {
    const int64_t count = groups(length);
    const auto* group = static_cast<const Group*>(panels) + column / kPanelColumns * count;
    auto* block = static_cast<Block*>(to);
    for (int64_t i = 0; i < count; ++i) Panels::unpack(group[i], column % kPanelColumns, block + i);
  }
};

struct PanelLayout {
  ggml_type type;
  size_t (*bytes)(int64_t length);
  void (*pack)(int64_t length, int64_t columns, const void* matrix, void* panels);
  void (*unpack)(int64_t length, int64_t columns, const void* panels, void* matrix);
  void (*unpack_column)(int64_t length, int64_t column, const void* panels, void* to);
};

template <class Panels>
constexpr PanelLayout layout_of(ggml_type type) {
  using Of = Layout<Panels>;
  return {type, Of::bytes, Of::pack, Of::unpack, Of::unpack_column};
}

constexpr PanelLayout kLayouts[] = {
    layout_of<Q4_0Panels>(GGML_TYPE_Q4_0),
    layout_of<Q4KPanels>(GGML_TYPE_Q4_K),
    layout_of<Q6KPanels>(GGML_TYPE_Q6_K),
};

const PanelLayout* find_layout(ggml_type type) {
  const auto* end = kLayouts + (kHasQuantizedTypes ? std::size(kLayouts) : 0);
  const auto* found = std::find_if(kLayouts, end, [type](const PanelLayout& layout) { return layout.type == type; });
  return found == end ? nullptr : found;
}

char mark;  // its address

struct RowScratch {
  Buffer<char> row;
};

}  // namespace

void mark_panels(ggml_tensor* matrix) { matrix->extra = &mark; }

bool is_in_panels(const ggml_tensor* matrix) { return matrix->extra == &mark; }

bool has_panels(ggml_type type) { return find_layout(type) != nullptr; }

size_t panel_bytes(ggml_type type, int64_t length) { return find_layout(type)->bytes(length); }

size_t panels_bytes(ggml_type type, int64_t length, int64_t columns) {
  return static_cast<size_t>(ceil_div(columns, kPanelColumns)) * panel_bytes(type, length);
}

void pack_panels(ggml_type type, int64_t length, int64_t columns, const void* matrix, void* panels) {
  find_layout(type)->pack(length, columns, matrix, panels);
}

void unpack_panels(ggml_type type, int64_t length, int64_t columns, const void* panels, void* matrix) {
  find_layout(type)->unpack(length, columns, panels, matrix);
}

void unpack_panel_column(ggml_type type, int64_t length, int64_t column, const void* panels, void* to) {
  find_layout(type)->unpack_column(length, column, panels, to);
}

void panel_rows(ggml_tensor* dst, int ith, int nth, void* /*call*/) {
  auto& scratch = thread_scratch<RowScratch>().row;
  const ggml_tensor* table = dst->src[0];
  const auto* rows = static_cast<const int32_t*>(dst->src[1]->data);
  const ggml_to_float_t to_float = ggml_get_type_traits(table->type)->to_float;
  const int64_t width = table->ne[0];
  char* row = scratch.sized(static_cast<int64_t>(ggml_row_size(table->type, width)));
  const Range part = Range::part(ggml_nelements(dst->src[1]), ith, nth);
  for (int64_t i = part.begin; i < part.end; ++i) {
    unpack_panel_column(table->type, width, rows[i], table->data, row);
    to_float(row, static_cast<float*>(dst->data) + i * width, width);
  }
}

}  // namespace executorch_ggml::kernels
