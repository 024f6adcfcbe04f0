// Attention with the scores never stored: keys and values pass by in blocks, and each query keeps the highest score so
// far, the sum of the weights and the weighted sum of the values (as in FlashAttention). All sums are in f32. With keys
// and values of bf16, queries and weights are rounded to it, as ggml's products round their rows.
#include "kernels/attention/attention.h"

#include <algorithm>
#include <limits>

#include "kernels/elementwise/convert.h"
#include "kernels/kernels.h"
#include "kernels/partition.h"
#include "kernels/product/dequantize.h"
#include "kernels/product/packed_product.h"
#include "kernels/scratch.h"
#include "kernels/simd/prefetch.h"

namespace executorch_ggml::kernels {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();
constexpr uint16_t kMaskedHalf = 0xfc00;   // the same in f16
constexpr int64_t kManyRows = 12;          // from which on packing keys and values pays
constexpr int64_t kSumsBytes = 256 << 10;  // of a share's rows, so that they stay in L2
constexpr int64_t kFewKeys = 32;           // of a block, so that they stay in L1
constexpr int64_t kMaskedKeys = 128;       // where masked blocks are skipped
constexpr int64_t kManyKeys = 256;         // else: fewer blocks rescale fewer sums

// Rows of keys or values of one head, in the type that the tensor has; or of f32, to be rounded to bf16.
struct Source {
  const ggml_tensor* t;
  bool rounds;
  int64_t head;
  int64_t batch;

  const char* row(int64_t i) const {
    return static_cast<const char*>(t->data) + static_cast<size_t>(i) * t->nb[1] +
           static_cast<size_t>(head) * t->nb[2] + static_cast<size_t>(batch) * t->nb[3];
  }

  // Some rows as floats: in place, or converted into `scratch`.
  FloatRows rows(int64_t first, int64_t count, float* scratch) const {
    const int64_t width = t->ne[0];
    if (t->type == GGML_TYPE_F32 && t->nb[1] % sizeof(float) == 0) {
      const FloatRows floats = {reinterpret_cast<const float*>(row(first)),
                                static_cast<int64_t>(t->nb[1] / sizeof(float))};
      if (!rounds) return floats;
      KERNEL_PICK(round_rows)(floats, count, width, scratch);
      return {scratch, width};
    }
    for (int64_t i = 0; i < count; ++i) {
      if (first + i + kPrefetchRows < t->ne[1]) prefetch_row(row(first + i + kPrefetchRows));
      to_floats_row(row(first + i), width, scratch + i * width);
    }
    return {scratch, width};
  }

  void prefetch_row(const char* from) const {
    const auto bytes = static_cast<int64_t>(ggml_row_size(t->type, t->ne[0]));
    for (int64_t i = 0; i < bytes; i += kCacheLineBytes) __builtin_prefetch(from + i);
  }

  // Whether the kernels read the rows as f16, by halves().
  bool reads_as_halves() const {
    return t->type == GGML_TYPE_F16 && t->nb[1] % sizeof(uint16_t) == 0 && KERNEL_PICK(reads_halves)();
  }

  // Rows as bf16: the tensor's own, or rounded copies in `scratch`.
  HalfRows bfloats(int64_t first, int64_t count, uint16_t* scratch) const {
    if (t->type == GGML_TYPE_BF16) return halves(first);
    const int64_t width = t->ne[0];
    for (int64_t i = 0; i < count; ++i) {
      from_floats(reinterpret_cast<const float*>(row(first + i)), width, DType::Bf16, scratch + i * width);
    }
    return {scratch, width};
  }

  HalfRows halves(int64_t first) const {
    return {reinterpret_cast<const uint16_t*>(row(first)), static_cast<int64_t>(t->nb[1] / sizeof(uint16_t))};
  }

  Block block(Range rows) const { return {rows.size(), t->ne[1] - rows.end, t->ne[0]}; }

  void to_floats_row(const char* from, int64_t width, float* to) const {
    if (rounds) {
      KERNEL_PICK(round_rows)({reinterpret_cast<const float*>(from), width}, 1, width, to);
    } else if (t->type == GGML_TYPE_F32) {
      std::copy_n(reinterpret_cast<const float*>(from), width, to);
    } else if (t->type == GGML_TYPE_F16 || t->type == GGML_TYPE_BF16) {
      to_floats(from, width, t->type == GGML_TYPE_F16 ? DType::F16 : DType::Bf16, to);
    } else if (t->type == GGML_TYPE_Q8_0) {
      KERNEL_PICK(floats_from_q8_0)(from, width, to);
    } else {
      ggml_get_type_traits(t->type)->to_float(from, to, width);
    }
  }
};

struct Scratch {
  Buffer<float> keys, values, packed_keys, packed_values, scores, weights, sums, block_sums;
  Buffer<Softmax> softmax;
  Buffer<const float*> queries;
  Buffer<const uint16_t*> masks;
  Buffer<float> rounded_queries;
  Buffer<uint16_t> half_queries, rows, half_keys, half_values, half_weights;
};

// The tiles that multiply with keys of bf16; null where rows are not in pairs, or the CPU has none.
const BfloatTiles* tiles_for(const ggml_tensor* keys) {
  return keys->ne[0] % 2 == 0 && keys->nb[1] % (2 * keys->nb[0]) == 0 ? bfloat_conv_tiles() : nullptr;
}

// The queries that share a head of keys are the rows of a share: all heads of a position after each other, so that rows
// next to each other see about the same keys.
class Attention {
 public:
  Attention(ggml_tensor* dst, const KernelCall<AttentionParams>& call)
      : params_(call.params),
        rounds_result_(call.rounds_result),
        is_of_bfloats_(is_built(DType::Bf16) && call.src[1] == DType::Bf16),
        dst_(dst),
        q_(dst->src[0]),
        k_(dst->src[1]),
        v_(dst->src[2]),
        mask_(dst->src[3]),
        head_rows_(q_->ne[2] / std::max<int64_t>(1, k_->ne[2])),
        rows_(q_->ne[1] * head_rows_),
        tiles_(is_of_bfloats_ ? tiles_for(k_) : nullptr) {}

  void run(int ith, int nth) {
    const int64_t heads = k_->ne[2] * k_->ne[3];
    if (heads == 0 || rows_ == 0) return;
    const int64_t parts = parts_of_rows(heads, nth);
    // The parts of later positions see more keys: they are the last of all heads, so that threads share them evenly.
    for (int64_t i = ith; i < heads * parts; i += nth) {
      const int64_t head = i % heads;
      run_share(head % k_->ne[2], head / k_->ne[2], Range::part(rows_, i / heads, parts));
    }
  }

 private:
  // Into how many shares the rows of a head are cut.
  int64_t parts_of_rows(int64_t heads, int nth) const {
    const int64_t wanted = ceil_div(rows_ > kManyRows * 4 ? 4 * nth : nth, heads);
    const int64_t most = kSumsBytes / (width() * static_cast<int64_t>(sizeof(float)));
    return std::clamp<int64_t>(wanted, ceil_div(rows_, std::max<int64_t>(1, most)), rows_);
  }

  void run_share(int64_t head, int64_t batch, Range rows) {
    begin_ = rows.begin;
    count_ = rows.size();
    keys_ = {k_, is_of_bfloats_ && k_->type == GGML_TYPE_F32, head, batch};
    values_ = {v_, is_of_bfloats_ && v_->type == GGML_TYPE_F32, head, batch};
    width_ = width();
    sums_ = scratch_.sums.sized(count_ * width_);
    softmax_ = scratch_.softmax.sized(count_);
    queries_ = scratch_.queries.sized(count_);
    masks_ = mask_ == nullptr ? nullptr : scratch_.masks.sized(count_);
    std::fill_n(softmax_, count_, Softmax{kMasked, 0.0f});
    find_rows();
    const bool packs = count_ >= kManyRows;
    if (is_of_bfloats_) round_queries(packs && tiles_ != nullptr);
    if (!packs || k_->ne[1] == 0) clear_sums({0, count_});
    const int64_t block = keys_of_block(packs);
    for (int64_t first = 0; first < k_->ne[1]; first += block) {
      const Range block_keys = {first, std::min(first + block, k_->ne[1])};
      if (packs) {
        add_packed(block_keys, block);
      } else {
        add_few(block_keys, block);
      }
    }
    write();
  }

  int64_t width() const { return std::max<int64_t>(1, ceil_div(v_->ne[0], kPackedColumns)) * kPackedColumns; }

  // Fewer where rows are long, so that the scratch memory stays small, and where the first row may skip the last keys.
  int64_t keys_of_block(bool packs) const {
    const int64_t longest = std::max(k_->ne[0], v_->ne[0]);
    const bool skips = masks_all({0, 1}, {std::max<int64_t>(0, k_->ne[1] - kMaskedKeys), k_->ne[1]});
    const int64_t most = !packs ? kFewKeys : skips ? kMaskedKeys : kManyKeys;
    return std::clamp<int64_t>(most * 256 / std::max<int64_t>(1, longest), kPackedColumns, most);
  }

  // Calls body(row, position, query_head) for each row of the share.
  template <class Body>
  void each_row(const Body& body) const {
    int64_t position = begin_ / head_rows_;
    int64_t head = begin_ % head_rows_;
    for (int64_t row = 0; row < count_; ++row) {
      body(row, position, keys_.head * head_rows_ + head);
      if (++head < head_rows_) continue;
      head = 0;
      ++position;
    }
  }

  // Queries and masks, of which all rows may share one.
  void find_rows() {
    const auto at = [&](const ggml_tensor* t, int64_t i1, int64_t i2, int64_t i3) {
      return static_cast<const char*>(t->data) + static_cast<size_t>(i1) * t->nb[1] +
             static_cast<size_t>(i2) * t->nb[2] + static_cast<size_t>(i3) * t->nb[3];
    };
    each_row([&](int64_t row, int64_t position, int64_t head) {
      queries_[row] = reinterpret_cast<const float*>(at(q_, position, head, keys_.batch));
      if (mask_ == nullptr) return;
      const char* mask = at(mask_, mask_->ne[1] == 1 ? 0 : position, head % mask_->ne[2], keys_.batch % mask_->ne[3]);
      masks_[row] = reinterpret_cast<const uint16_t*>(mask);
    });
  }

  // For tiles as bf16, else in f32.
  void round_queries(bool for_tiles) {
    const int64_t width = q_->ne[0];
    if (for_tiles) {
      half_queries_ = scratch_.half_queries.sized(count_ * width);
      for (int64_t i = 0; i < count_; ++i) from_floats(queries_[i], width, DType::Bf16, half_queries_ + i * width);
      return;
    }
    float* rounded = scratch_.rounded_queries.sized(count_ * width);
    for (int64_t i = 0; i < count_; ++i) {
      KERNEL_PICK(round_rows)({queries_[i], width}, 1, width, rounded + i * width);
      queries_[i] = rounded + i * width;
    }
  }

  // They come while scores are computed: rows are too far apart for the CPU to guess.
  void prefetch_masks(Range rows, Range keys) const {
    if (masks_ == nullptr) return;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      prefetch(masks_[row] + keys.begin, keys.size() * static_cast<int64_t>(sizeof(uint16_t)));
    }
  }

  bool masks_all(Range rows, Range keys) const {
    if (masks_ == nullptr) return false;
    const uint16_t* before = nullptr;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const uint16_t* halves = masks_[row];
      if (halves == before) continue;
      before = halves;
      for (int64_t key = keys.begin; key < keys.end; ++key) {
        if (halves[key] != kMaskedHalf) return false;
      }
    }
    return true;
  }

  // Writes the weights of some rows, and the factors that rescale their sums.
  void weigh(Range rows, Range keys, const float* scores, int64_t stride, float* factors, float* weights, bool rounds) {
    const uint16_t* const* masks = masks_ == nullptr ? nullptr : masks_ + rows.begin;
    Softmax* const softmax = softmax_ + rows.begin;
    KERNEL_PICK(softmax_rows)
    ({rows.size(), keys.size(), stride, scores, masks, keys.begin, softmax, weights, factors, rounds}, params_.scale,
     params_.logit_softcap);
  }

  // A block of keys for few rows: each key is read once for all of them.
  void add_few(Range keys, int64_t block) {
    if (masks_all({0, count_}, keys)) return;
    float* scores = scratch_.scores.sized(count_ * block);
    float* weights = scratch_.weights.sized(count_ * block);
    float factors[kManyRows];
    float* sums[kManyRows];
    score(keys, scores, block);
    weigh({0, count_}, keys, scores, block, factors, weights, is_of_bfloats_);
    for (int64_t row = 0; row < count_; ++row) sums[row] = sums_ + row * width_;
    sum(keys, weights, block, factors, sums);
  }

  void score(Range keys, float* scores, int64_t stride) {
    if (keys_.reads_as_halves()) {
      KERNEL_PICK(score_few_halves)(queries_, count_, keys_.halves(keys.begin), keys_.block(keys), scores, stride);
    } else {
      const FloatRows k = keys_.rows(keys.begin, keys.size(), scratch_.keys.sized(stride * k_->ne[0]));
      KERNEL_PICK(score_few)(queries_, count_, k, {keys.size(), 0, k_->ne[0]}, scores, stride);
    }
  }

  void sum(Range keys, const float* weights, int64_t stride, const float* factors, float* const* sums) {
    if (values_.reads_as_halves()) {
      KERNEL_PICK(sum_few_halves)
      (weights, stride, count_, values_.halves(keys.begin), values_.block(keys), factors, sums);
    } else {
      const FloatRows v = values_.rows(keys.begin, keys.size(), scratch_.values.sized(stride * v_->ne[0]));
      KERNEL_PICK(sum_few)(weights, stride, count_, v, {keys.size(), 0, v_->ne[0]}, factors, sums);
    }
  }

  void clear_sums(Range rows) { std::fill_n(sums_ + rows.begin * width_, rows.size() * width_, 0.0f); }

  // A block of keys for many rows, as two matrix products with conv_2d's tiles.
  void add_packed(Range keys, int64_t block) {
    bool packed = false;
    for (int64_t row = 0; row < count_; row += tile_rows_) {
      const Range rows = {row, std::min(row + tile_rows_, count_)};
      if (masks_all(rows, keys)) {
        if (keys.begin == 0) clear_sums(rows);
        continue;
      }
      if (!packed) tiles_ != nullptr ? pack_bfloats(keys, block) : pack(keys, block);
      packed = true;
      add_tile(rows, keys, block);
    }
  }

  void pack(Range keys, int64_t block) {
    const int64_t padded = ceil_div(block, kPackedColumns) * kPackedColumns;
    packed_keys_ = scratch_.packed_keys.sized(padded * k_->ne[0]);
    packed_values_ = scratch_.packed_values.sized(block * width_);
    const FloatRows k = keys_.rows(keys.begin, keys.size(), scratch_.keys.sized(block * k_->ne[0]));
    KERNEL_PICK(pack_columns)(k, keys.size(), k_->ne[0], packed_keys_);
    const FloatRows v = values_.rows(keys.begin, keys.size(), scratch_.values.sized(block * v_->ne[0]));
    KERNEL_PICK(pack_rows)(v, keys.size(), v_->ne[0], packed_values_);
  }

  void add_tile(Range rows, Range keys, int64_t block) {
    const int64_t count = rows.size();
    float* sums = sums_ + rows.begin * width_;
    const bool is_first = keys.begin == 0;  // there is nothing to add to
    float* block_sums = is_first ? sums : scratch_.block_sums.sized(tile_rows_ * width_);
    float factors[kMaxTileRows];
    prefetch_masks(rows, keys);
    if (tiles_ != nullptr) {
      multiply_bfloats(rows, keys, block, factors, block_sums);
    } else {
      multiply(rows, keys, block, factors, block_sums);
    }
    if (is_first) return;
    for (int64_t i = 0; i < count; ++i) {
      KERNEL_PICK(scale_and_add)(factors[i], block_sums + i * width_, v_->ne[0], sums + i * width_);
    }
  }

  // The weighted sums of a block's values, and what rescales those of the blocks before.
  void multiply(Range rows, Range keys, int64_t block, float* factors, float* sums) {
    const int64_t count = rows.size();
    float* scores = scratch_.scores.sized(tile_rows_ * block);
    float* weights = scratch_.weights.sized(tile_rows_ * block);
    const float* operands[kMaxTileRows];
    multiply_packed(queries_ + rows.begin, count, k_->ne[0], packed_keys_, keys.size(), scores, block);
    weigh(rows, keys, scores, block, factors, weights, is_of_bfloats_);
    for (int64_t i = 0; i < count; ++i) operands[i] = weights + i * block;
    multiply_packed(operands, count, keys.size(), packed_values_, v_->ne[0], sums, width_);
  }

  // The same in bf16.
  void multiply_bfloats(Range rows, Range keys, int64_t block, float* factors, float* sums) {
    const int64_t count = rows.size();
    const int64_t length = even(keys.size());
    float* scores = scratch_.scores.sized(tile_rows_ * block);
    float* weights = scratch_.weights.sized(block);
    uint16_t* rounded = scratch_.half_weights.sized(tile_rows_ * length);
    const uint16_t* operands[kMaxTileRows];
    for (int64_t i = 0; i < count; ++i) operands[i] = half_queries_ + (rows.begin + i) * k_->ne[0];
    multiply_packed(*tiles_, session_, operands, count, k_->ne[0], half_keys_, keys.size(), scores, block);
    for (int64_t i = 0; i < count; ++i) {
      uint16_t* halves = rounded + i * length;
      const int64_t row = rows.begin + i;
      weigh({row, row + 1}, keys, scores + i * block, block, factors + i, weights, false);
      halves[length - 1] = 0;
      from_floats(weights, keys.size(), DType::Bf16, halves);
      operands[i] = halves;
    }
    multiply_packed(*tiles_, session_, operands, count, length, half_values_, v_->ne[0], sums, width_);
  }

  void pack_bfloats(Range keys, int64_t block) {
    const int64_t padded = ceil_div(block, kPackedColumns) * kPackedColumns;
    half_keys_ = scratch_.half_keys.sized(padded * k_->ne[0]);
    half_values_ = scratch_.half_values.sized(even(block) * width_);
    uint16_t* rows = scratch_.rows.sized(block * std::max(k_->ne[0], v_->ne[0]));
    const HalfRows k = keys_.bfloats(keys.begin, keys.size(), rows);
    // A pair of a row moves as a float does.
    const FloatRows pairs = {reinterpret_cast<const float*>(k.data), k.stride / 2};
    KERNEL_PICK(pack_columns)(pairs, keys.size(), k_->ne[0] / 2, reinterpret_cast<float*>(half_keys_));
    KERNEL_PICK(pack_row_pairs)
    (values_.bfloats(keys.begin, keys.size(), rows), keys.size(), v_->ne[0], half_values_);
  }

  static int64_t even(int64_t n) { return n + n % 2; }

  // A row whose keys are all masked is 0; one whose scores are all -inf without a mask is NaN, as its softmax is.
  void write() const {
    const int64_t width = v_->ne[0];
    const bool masked = mask_ != nullptr || k_->ne[1] == 0;
    each_row([&](int64_t row, int64_t position, int64_t head) {
      const int64_t out_row = (keys_.batch * dst_->ne[2] + position) * dst_->ne[1] + head;
      const float sum = softmax_[row].sum;
      const float factor = sum == 0.0f && masked ? 0.0f : 1.0f / sum;
      float* const to = static_cast<float*>(dst_->data) + out_row * width;
      KERNEL_PICK(scale_into)(factor, sums_ + row * width_, width, rounds_result_, to);
    });
  }

  const AttentionParams& params_;
  bool rounds_result_;
  bool is_of_bfloats_;
  ggml_tensor* dst_;
  const ggml_tensor* q_;
  const ggml_tensor* k_;
  const ggml_tensor* v_;
  const ggml_tensor* mask_;
  int64_t head_rows_;
  int64_t rows_;  // of one head of keys
  const BfloatTiles* tiles_;
  const int64_t tile_rows_ = tiles_ != nullptr ? tiles_->rows : max_packed_rows();
  TileSession session_{tiles_ != nullptr ? tiles_->setup : nullptr};
  Scratch& scratch_ = thread_scratch<Scratch>();

  // Of the current share.
  int64_t begin_ = 0;
  int64_t count_ = 0;
  int64_t width_ = 0;  // floats from a row's sums to the next one's
  Source keys_{};
  Source values_{};
  float* sums_ = nullptr;
  Softmax* softmax_ = nullptr;
  const float** queries_ = nullptr;
  const uint16_t** masks_ = nullptr;  // where there is a mask
  float* packed_keys_ = nullptr;
  float* packed_values_ = nullptr;
  uint16_t* half_queries_ = nullptr;
  uint16_t* half_keys_ = nullptr;
  uint16_t* half_values_ = nullptr;
};

}  // namespace

void attention(ggml_tensor* dst, int ith, int nth, void* call) {
  Attention(dst, as_call<AttentionParams>(call)).run(ith, nth);
}

}  // namespace executorch_ggml::kernels
