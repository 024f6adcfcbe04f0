#include "kernels/scratch.h"

namespace executorch_ggml::kernels {
namespace {

constexpr size_t kLine = 64;

size_t rounded(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

thread_local ScratchSet* in_use = nullptr;

}  // namespace

ScratchSet* ScratchSet::current() { return in_use; }

ScratchSet::Use::Use(ScratchSet* set) : outer_(in_use) { in_use = set; }

ScratchSet::Use::~Use() { in_use = outer_; }

ScratchSet::~ScratchSet() {
  for (const Entry& entry : entries_) entry.destroy(entry.scratch);
}

void* ScratchSet::allocate(size_t bytes) {
  const size_t offset = space_.take(rounded(bytes));
  if (offset + rounded(bytes) <= size_) return block_ + offset;
  void* memory = ::operator new(bytes);
  offsets_.emplace(memory, offset);
  return memory;
}

void ScratchSet::free(void* memory, size_t bytes) {
  const auto found = offsets_.find(memory);
  if (found == offsets_.end()) {
    return space_.give_back(static_cast<size_t>(static_cast<char*>(memory) - block_), rounded(bytes));
  }
  space_.give_back(found->second, rounded(bytes));
  offsets_.erase(found);
  ::operator delete(memory);
}

}  // namespace executorch_ggml::kernels
