#include "aligned_bytes.h"

#include <algorithm>
#include <cinttypes>

#include "platform/platform.h"
#include "status.h"

namespace executorch_ggml {
namespace {

constexpr size_t kAlignment = 64;

}  // namespace

void AlignedBytes::Free::operator()(uint8_t* data) const { platform::free_aligned(data); }

Status AlignedBytes::allocate(uint64_t size) {
  const size_t rounded = (std::max<size_t>(size, 1) + kAlignment - 1) / kAlignment * kAlignment;
  data_.reset(static_cast<uint8_t*>(platform::allocate_aligned(kAlignment, rounded)));
  return data_ != nullptr ? Status() : Status::error(format("no memory for its %" PRIu64 " bytes", size));
}

}  // namespace executorch_ggml
