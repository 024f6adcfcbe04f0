#include "kernels/convolution/chain.h"

#include <algorithm>
#include <cstring>

#include "kernels/partition.h"
#include "kernels/scratch.h"

namespace executorch_ggml::kernels {
namespace {

constexpr int64_t kStripBytes = 256 * 1024;   // of all buffers, beside weights in L2
constexpr int64_t kLeastFloats = 128 * 1024;  // of an image between two layers: smaller ones stay in L2 as they are
constexpr int kAddend = 3;                    // a layer's source, after input, weight and bias
constexpr int64_t kLeastRows = 16;            // of a depthwise result: each thread needs some rows that others need too

ggml_tensor rows_of(const std::array<int64_t, 4>& ne, float* data, int64_t rows) {
  ggml_tensor t = {};
  t.type = GGML_TYPE_F32;
  t.data = data;
  t.ne[0] = ne[0];
  t.ne[1] = ne[1];
  t.ne[2] = rows;
  t.ne[3] = 1;
  t.nb[0] = sizeof(float);
  for (int i = 1; i < 4; ++i) t.nb[i] = t.nb[i - 1] * static_cast<size_t>(t.ne[i - 1]);
  return t;
}

int64_t row_floats(const std::array<int64_t, 4>& ne) { return ne[0] * ne[1]; }

const Window& vertical(const ChainedLayer& layer) { return layer.call.params.window.h; }

// The input rows that output rows need, of an image with rows without end.
Range input_rows(const ChainedLayer& layer, Range rows) {
  const Window& w = vertical(layer);
  return {rows.begin * w.stride - w.pad, (rows.end - 1) * w.stride - w.pad + (w.kernel - 1) * w.dilation + 1};
}

Range inside(Range rows, int64_t height) {
  const int64_t begin = std::clamp<int64_t>(rows.begin, 0, height);
  return {begin, std::clamp<int64_t>(rows.end, begin, height)};
}

class Chain {
 public:
  Chain(ggml_tensor* dst, const ChainParams& params) : dst_(dst), params_(params) {
    const ggml_tensor* x = dst->src[0];
    std::copy_n(x->ne, 4, x_ne_.begin());
    strip_ = largest_strip();
    for (int i = 0; i + 1 < params.count; ++i) {
      const int64_t floats = rows_for(strip_)[i] * row_floats(params.layers[i].ne);
      buffers_[i] = thread_scratch<Scratch>().rows[i].sized(floats);
    }
  }

  void run(int ith, int nth) {
    const int64_t height = last().ne[2];
    const Range rows = Range::part(height * last().ne[3], ith, nth);
    for (int64_t row = rows.begin; row < rows.end;) {
      const int64_t image = row / height;
      const int64_t end = std::min(rows.end, (image + 1) * height);
      run_image(image, {row - image * height, end - image * height});
      row = end;
    }
  }

 private:
  using Rows = std::array<int64_t, kMostChained>;

  struct Scratch {
    std::array<Buffer<float>, kMostChained - 1> rows;
  };

  const ChainedLayer& last() const { return params_.layers[params_.count - 1]; }

  // How many rows of each layer's result so many of the last one's need, at most all that it has.
  Rows rows_for(int64_t rows) const {
    Rows result{};
    for (int i = params_.count - 1; i >= 0; --i) {
      rows = std::min(rows, params_.layers[i].ne[2]);
      result[static_cast<size_t>(i)] = rows;
      rows = input_rows(params_.layers[i], {0, rows}).size();
    }
    return result;
  }

  int64_t largest_strip() const {
    int64_t strip = 1;
    while (strip < last().ne[2] && buffer_bytes(strip + 1) <= kStripBytes) ++strip;
    return strip;
  }

  int64_t buffer_bytes(int64_t strip) const {
    const Rows rows = rows_for(strip);
    int64_t floats = 0;
    for (int i = 0; i + 1 < params_.count; ++i) {
      floats += rows[static_cast<size_t>(i)] * row_floats(params_.layers[i].ne);
    }
    return floats * static_cast<int64_t>(sizeof(float));
  }

  void run_image(int64_t image, Range rows) {
    image_ = image;
    std::fill(std::begin(held_), std::end(held_), Range{});
    for (int64_t row = rows.begin; row < rows.end; row += strip_) {
      compute(params_.count - 1, {row, std::min(row + strip_, rows.end)});
    }
  }

  // Rows of a layer's result, after those that they need of the layer before.
  void compute(int layer, Range rows) {
    const ChainedLayer& of = params_.layers[layer];
    const auto& in_ne = layer == 0 ? x_ne_ : params_.layers[layer - 1].ne;
    const Range unbounded = input_rows(of, rows);
    const Range needed = inside(unbounded, in_ne[2]);
    if (layer > 0) hold(layer - 1, needed);
    ggml_tensor in = rows_of(in_ne, row_of_input(layer, needed.begin), needed.size());
    if (layer == 0) std::copy_n(dst_->src[0]->nb, 4, in.nb);  // the image may lie in planes
    ggml_tensor out = rows_of(of.ne, row_of_result(layer, rows.begin), rows.size());
    out.src[0] = &in;
    out.src[1] = const_cast<ggml_tensor*>(of.weight);
    out.src[2] = const_cast<ggml_tensor*>(of.bias);
    KernelCall<ConvolutionParams> call = of.call;
    ggml_tensor addend = {};
    if (const float* added = addend_of(dst_, of.call.params); added != nullptr) {
      addend =
          rows_of(of.ne, const_cast<float*>(added) + (static_cast<float*>(out.data) - first_result()), rows.size());
      out.src[kAddend] = &addend;
      call.params.addend = kAddend;
    }
    call.params.window.h.pad = needed.begin - unbounded.begin;
    of.kernel(&out, 0, 1, &call);
  }

  // Have these rows of a layer's result in its buffer. Those of the strip before that are needed again move to its
  // begin.
  void hold(int layer, Range rows) {
    Range& held = held_[layer];
    const int64_t floats = row_floats(params_.layers[layer].ne);
    if (held.end <= rows.begin) {
      held = {rows.begin, rows.begin};
    } else if (held.begin < rows.begin) {
      float* buffer = buffers_[layer];
      const int64_t kept = held.end - rows.begin;
      std::memmove(buffer, buffer + (rows.begin - held.begin) * floats,
                   static_cast<size_t>(kept * floats) * sizeof(float));
      held.begin = rows.begin;
    }
    if (held.end >= rows.end) return;
    const Range missing = {held.end, rows.end};
    held.end = rows.end;
    compute(layer, missing);
  }

  const float* first_result() const { return static_cast<const float*>(dst_->data); }

  float* row_of_input(int layer, int64_t row) const {
    if (layer > 0) return row_of_result(layer - 1, row);
    const ggml_tensor& x = *dst_->src[0];
    const size_t offset = static_cast<size_t>(image_) * x.nb[3] + static_cast<size_t>(row) * x.nb[2];
    return reinterpret_cast<float*>(static_cast<char*>(x.data) + offset);
  }

  float* row_of_result(int layer, int64_t row) const {
    const auto& ne = params_.layers[layer].ne;
    if (layer + 1 < params_.count) return buffers_[layer] + (row - held_[layer].begin) * row_floats(ne);
    return static_cast<float*>(dst_->data) + (image_ * ne[2] + row) * row_floats(ne);
  }

  ggml_tensor* dst_;
  const ChainParams& params_;
  std::array<int64_t, 4> x_ne_{};
  int64_t strip_ = 1;  // rows of the last layer's result at a time
  float* buffers_[kMostChained - 1] = {};
  Range held_[kMostChained - 1];  // the rows of each layer's result that are in its buffer
  int64_t image_ = 0;
};

bool is_pixelwise(const Window2d& w) { return w.w.kernel == 1 && w.h.kernel == 1; }

bool is_strided_up(const Window2d& w) { return w.w.up > 1 || w.h.up > 1; }

bool is_depthwise(const ChainedLayer& layer) { return layer.kernel == conv_2d_dw; }

}  // namespace

bool continues(const ChainParams& chain, const ChainedLayer& layer) {
  if (chain.count == 0 || chain.count == kMostChained || is_strided_up(layer.call.params.window)) return false;
  const ChainedLayer& before = chain.layers[chain.count - 1];
  if (is_strided_up(before.call.params.window)) return false;
  const bool is_large = row_floats(before.ne) * before.ne[2] >= kLeastFloats;
  if (is_depthwise(before)) {
    return !is_depthwise(layer) && is_pixelwise(layer.call.params.window) && (is_large || chain.count > 1);
  }
  return is_depthwise(layer) && is_large && layer.ne[2] >= kLeastRows;
}

void conv_2d_chain(ggml_tensor* dst, int ith, int nth, void* call) {
  Chain(dst, as_call<ChainParams>(call).params).run(ith, nth);
}

}  // namespace executorch_ggml::kernels
