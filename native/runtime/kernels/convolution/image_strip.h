// What a convolution copies of its images before tiles read it: rows that are rounded to bf16, padded with zeros, or
// taken from planes. For conv_2d.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "ggml.h"
#include "kernels/convolution/bfloats.h"
#include "kernels/convolution/image.h"
#include "kernels/convolution/taps.h"
#include "kernels/layout.h"
#include "kernels/movement/quads.h"
#include "kernels/partition.h"
#include "kernels/scratch.h"

namespace executorch_ggml::kernels {

constexpr int64_t kMostPadding = 16;  // pixels on a side that an image is padded by before it is read

// Whether an image's rows can be copied with all the padding that a window sees.
inline bool can_pad(const Axis& horizontal, const Axis& vertical) {
  const auto fits = [](const Axis& w) {
    return w.up == 1 && w.pad >= 0 && w.pad <= kMostPadding && (w.kernel - 1) * w.dilation <= 2 * kMostPadding;
  };
  return fits(horizontal) && fits(vertical);
}

// Of floats, or of bf16 in uint16_t, to which an image of floats is rounded.
template <class Element>
class ImageStrip {
 public:
  // A strip lies in a buffer until the next one is copied.
  ImageStrip(const ggml_tensor* images, Buffer<Element>& buffer, Buffer<float>& row)
      : source_(images),
        floats_(images->type == GGML_TYPE_F32 ? static_cast<const float*>(images->data) : nullptr),
        plane_(static_cast<int64_t>(images->nb[0])),
        row_(static_cast<int64_t>(images->nb[2])),
        image_(static_cast<int64_t>(images->nb[3])),
        buffer_(buffer),
        pixels_(row) {}

  bool rounds() const { return !std::is_same_v<Element, float> && floats_ != nullptr; }

  // Whether a channel's pixels are adjacent, not a pixel's channels.
  bool reads_planes() const { return floats_ != nullptr && plane_ != kFloat; }

  // Else tiles read the images where they are.
  bool copies() const { return rounds() || is_padded_; }

  bool pays_to_pad(const Axis& horizontal, const Axis& vertical) const {
    return can_pad(horizontal, vertical) && (reads_planes() || horizontal.pad > 0 || vertical.pad > 0);
  }

  // Has rows copied with zero padding, for windows that then see no pixel outside of the images, whose extents grow.
  void pad(Axis& horizontal, Axis& vertical, const ImageShape& out, ImageShape& in) {
    is_padded_ = true;
    left_ = std::exchange(horizontal.pad, 0);
    above_ = std::exchange(vertical.pad, 0);
    const auto padded = [](const Axis& w, int64_t before, int64_t size, int64_t results) {
      return std::max(before + size, (results - 1) * w.stride + (w.kernel - 1) * w.dilation + 1);
    };
    in.width = padded(horizontal, left_, in.width, out.width);
    in.height = padded(vertical, above_, in.height, out.height);
  }

  // Has the channels of each image multiplied with factors of its own, before copy_pixels(pixels, ...) rounds them.
  void scale_by(const float* factors) { factors_ = factors; }

  // Rows of all images, which lie one below the other, of extents `in`. So many elements more can be read.
  const Element* copy_rows(Range rows, const ImageShape& in, int64_t beyond) {
    const int64_t row = in.width * in.channels;
    Element* to = buffer_.sized(rows.size() * row + beyond);
    if (is_padded_) {
      for (int64_t y = rows.begin; y < rows.end; ++y) copy_padded_row(y, in, to + (y - rows.begin) * row);
    } else {
      copy_elements(floats_ + rows.begin * row, rows.size() * row, to);
    }
    return to;
  }

  // Adjacent pixels.
  const Element* copy_pixels(Range pixels) {
    const int64_t elements = pixels.size() * source_.channels;
    Element* to = buffer_.sized(elements);
    copy_elements(floats_ + pixels.begin * source_.channels, elements, to);
    return to;
  }

  // The pixels source_of(i), `pitch` elements apart. The element after each is 0, where there is room.
  template <class SourceOf>
  const Element* copy_pixels(Range pixels, int64_t pitch, const SourceOf& source_of) {
    Element* const to = buffer_.sized(pixels.size() * pitch);
    for (int64_t i = 0; i < pixels.size(); ++i) {
      Element* pixel = to + i * pitch;
      copy_pixel(source_of(pixels.begin + i), pixel);
      if (pitch > source_.channels) pixel[source_.channels] = 0;
    }
    return to;
  }

 private:
  static constexpr int64_t kFloat = sizeof(float);

  void copy_pixel(int64_t pixel, Element* to) const {
    const int64_t channels = source_.channels;
    const float* from = floats_ + pixel * channels;
    if constexpr (!std::is_same_v<Element, float>) {
      if (factors_ != nullptr) {
        const int64_t image = pixel / (source_.width * source_.height);
        return round_scaled_bfloats(from, factors_ + image * channels, channels, to);
      }
    }
    copy_elements(from, channels, to);
  }

  void copy_padded_row(int64_t row, const ImageShape& in, Element* to) {
    const int64_t y = row % in.height - above_;
    Element* const end = to + in.width * in.channels;
    if (y < 0 || y >= source_.height) {
      std::fill(to, end, Element{});
      return;
    }
    const int64_t elements = source_.width * source_.channels;
    Element* const first = to + left_ * in.channels;
    std::fill(to, first, Element{});
    const float* from = floats_ + (row / in.height * image_ + y * row_) / kFloat;
    if (reads_planes()) {
      copy_planes(from, first);
    } else {
      copy_elements(from, elements, first);
    }
    std::fill(first + elements, end, Element{});
  }

  // A row of all channels' planes.
  void copy_planes(const float* from, Element* to) {
    if constexpr (std::is_same_v<Element, float>) {
      interleave(from, to);
    } else {
      const int64_t elements = source_.width * source_.channels;
      float* pixels = pixels_.sized(elements);
      interleave(from, pixels);
      copy_elements(pixels, elements, to);
    }
  }

  // One pixel after the other.
  void interleave(const float* from, float* to) const {
    const int64_t channels = source_.channels;
    const int64_t pixel = channels * kFloat;
    const int64_t whole = channels == 3 ? source_.width / kQuad * kQuad : 0;
    const auto* plane = reinterpret_cast<const char*>(from);
    auto* pixels = reinterpret_cast<char*>(to);
    for (int64_t i = 0; i < whole; i += kQuad) interleave_colors(plane + i * kFloat, plane_, pixels + i * pixel);
    for (int64_t c = 0; c < channels; ++c, plane += plane_) {
      kernels::copy_elements(pixels + whole * pixel + c * kFloat, pixel, plane + whole * kFloat, kFloat,
                             source_.width - whole, kFloat);
    }
  }

  static void copy_elements(const float* from, int64_t n, Element* to) {
    if constexpr (std::is_same_v<Element, float>) {
      std::copy_n(from, n, to);
    } else {
      round_bfloats(from, n, to);
    }
  }

  ImageShape source_;    // as it lies in memory
  const float* floats_;  // null where the images are of another type
  const float* factors_ = nullptr;
  int64_t plane_;  // bytes from a channel to the next, from a row, and from an image
  int64_t row_;
  int64_t image_;
  Buffer<Element>& buffer_;
  Buffer<float>& pixels_;  // of a row, before they are rounded
  bool is_padded_ = false;
  int64_t left_ = 0;  // pixels of padding
  int64_t above_ = 0;
};

}  // namespace executorch_ggml::kernels
