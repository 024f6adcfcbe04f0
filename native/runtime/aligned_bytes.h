// Memory for FlatBuffers.
#pragma once

#include <cstdint>
#include <memory>

#include "result.h"

namespace executorch_ggml {

// Memory that begins at a multiple of 64.
class AlignedBytes {
 public:
  Status allocate(uint64_t size);
  uint8_t* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(uint8_t* data) const;
  };
  std::unique_ptr<uint8_t, Free> data_;
};

}  // namespace executorch_ggml
