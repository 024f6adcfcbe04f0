// A thread's tile registers (simd/tiles.h) while it computes by tiles that need them: shaped for what comes next, and
// in the end put back as they were found. For plain .cpp only (see simd/isa.h).
#pragma once

#include "kernels/convolution/conv_2d.h"

namespace executorch_ggml::kernels {

class TileSession {
 public:
  explicit TileSession(const TileSetup* setup) : setup_(setup) {
    if (setup_ != nullptr) setup_->save(&before_);
  }
  ~TileSession() {
    if (setup_ != nullptr) setup_->restore(before_);
  }
  TileSession(const TileSession&) = delete;
  TileSession& operator=(const TileSession&) = delete;

  // For tiles of so many rows, whose taps have runs of so many inputs.
  void shape(int64_t rows, int64_t run) {
    if (setup_ == nullptr || (rows == rows_ && run == run_)) return;
    setup_->shape(rows, run);
    rows_ = rows;
    run_ = run;
  }

 private:
  const TileSetup* setup_;  // null where nothing is to be set up
  TileState before_;
  int64_t rows_ = -1;
  int64_t run_ = -1;
};

}  // namespace executorch_ggml::kernels
