// Panels: how int8 GEMM reads matrices of some quantized types, 16 columns side by side. The same bytes on every CPU:
// programs may store them (Storage::Panels), and ggml's own layout can be had back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ggml.h"

namespace executorch_ggml::kernels {

constexpr int64_t kPanelColumns = 16;
constexpr int64_t kPanelBlock = 32;  // weights of a column that share a scale or are scaled in halves

// ggml's blocks.

struct Q4_0Block {
  uint16_t scale;
  uint8_t low[16];
};

struct Q4KBlock {
  uint16_t scale, min;
  uint8_t parts[12];  // eight scales and as many minimums, of 6 bits
  uint8_t low[128];
};

struct Q6KBlock {
  uint8_t low[128];
  uint8_t high[64];
  int8_t scales[16];
  uint16_t scale;
};

static_assert(sizeof(Q4_0Block) == 18 && sizeof(Q4KBlock) == 144 && sizeof(Q6KBlock) == 210, "as in ggml");

// A panel is a row of groups: a group has one of ggml's blocks of each column, in kBlocks parts of 32 weights.

// The lower 4 bits: byte 4 * column + i of row q has those of weight 4 * q + i, and of weight 16 + 4 * q + i above
// them.
using PanelNibbles = uint8_t[4][kPanelColumns * 4];

struct Q4_0Group {
  static constexpr int64_t kBlocks = 1;
  uint16_t scale[kPanelColumns];
  PanelNibbles low;
};

struct Q4KGroup {
  static constexpr int64_t kBlocks = 8;
  struct Part {
    uint8_t scale[kPanelColumns];
    uint8_t min[kPanelColumns];
    PanelNibbles low;
  };
  uint16_t scale[kPanelColumns];
  uint16_t min[kPanelColumns];
  Part parts[kBlocks];
};

struct Q6KGroup {
  static constexpr int64_t kBlocks = 8;
  struct Part {
    int8_t scale[2][kPanelColumns];
    PanelNibbles low;
    uint8_t high[2]
                [kPanelColumns * 4];  // the upper 2 bits of each four weights: bits 2 * i of [j] are of four 2 * i + j
  };
  uint16_t scale[kPanelColumns];
  Part parts[kBlocks];
};

// A matrix whose data are panels is marked in ggml_tensor::extra, which ggml's own layouts use as well.
void mark_panels(ggml_tensor* matrix);
bool is_in_panels(const ggml_tensor* matrix);

// Whether matrices of the type have panels.
bool has_panels(ggml_type type);

// The bytes of one panel of columns of `length` weights, and of all of a matrix. The type must have panels.
size_t panel_bytes(ggml_type type, int64_t length);
size_t panels_bytes(ggml_type type, int64_t length, int64_t columns);

// A dense matrix's panels from ggml's layout, columns that the last panel lacks as zeros; and the inverse.
void pack_panels(ggml_type type, int64_t length, int64_t columns, const void* matrix, void* panels);
void unpack_panels(ggml_type type, int64_t length, int64_t columns, const void* panels, void* matrix);

// One column as ggml has it.
void unpack_panel_column(ggml_type type, int64_t length, int64_t column, const void* panels, void* to);

// get_rows of a matrix in panels, whose columns are the table's rows.
void panel_rows(ggml_tensor* dst, int ith, int nth, void* call);

}  // namespace executorch_ggml::kernels
