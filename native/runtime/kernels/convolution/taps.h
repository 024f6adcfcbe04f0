// The taps of a convolution's window, phase by phase. For conv_2d.cpp.
#pragma once

#include <cstdint>
#include <numeric>

#include "kernels/partition.h"
#include "kernels/scratch.h"
#include "ops_generated.h"

namespace executorch_ggml::kernels {

// The convolution's window along one axis.
struct Axis : Window {
  explicit Axis(const Window& window) : Window(window) {}

  // Output pixels that are `phases` apart use the same taps: with up > 1 the other taps meet inserted zeros.
  int64_t phases = up / std::gcd(stride, up);
  int64_t step = phases * stride / up;  // input pixels from one output pixel of a phase to its next

  int64_t phase_size(int64_t phase, int64_t out) const { return ceil_div(out - phase, phases); }
  // The tap's position for the first output pixel of the phase, in the input spread with zeros.
  int64_t spread(int64_t phase, int64_t tap) const { return phase * stride - pad + tap * dilation; }
};

// One tap of a phase: input pixel (x + i * step) for the phase's output pixel i.
struct Tap {
  int64_t x;
  int64_t y;
  int64_t delta;    // elements from input pixel (i * step) to the tap's
  int64_t weights;  // elements from a block's begin to the tap's weights
};

// The taps of a phase as the tiles take them.
struct Taps {
  ScratchVector<Tap> at;
  ScratchVector<int64_t> weights;
  int64_t run = 0;

  void clear(int64_t elements) {
    at.clear();
    weights.clear();
    run = elements;
  }
  void add(const Tap& tap) {
    at.push_back(tap);
    weights.push_back(tap.weights);
  }
};

}  // namespace executorch_ggml::kernels
