// Memory that a kernel's thread keeps from call to call. For plain .cpp only (see simd/isa.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <unordered_map>
#include <vector>

#include "memory_plan.h"

namespace executorch_ggml::kernels {

// A session's own scratch, instead of the threads': while it is in use on a thread, kernels there keep theirs in it. In
// a block of memory it must be used for the same calls as a set that measured them: then it fits the block and, from
// the second time on, allocates nothing.
class ScratchSet {
 public:
  // Null: it allocates, and measures.
  explicit ScratchSet(void* block = nullptr, size_t size = 0) : block_(static_cast<char*>(block)), size_(size) {}
  ~ScratchSet();
  ScratchSet(const ScratchSet&) = delete;
  ScratchSet& operator=(const ScratchSet&) = delete;

  // How large a block has to be for all that was allocated so far.
  size_t measured() const { return space_.size(); }

  // Of the calling thread; null where none is in use.
  static ScratchSet* current();

  class Use {
   public:
    explicit Use(ScratchSet* set);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    ScratchSet* outer_;
  };

  template <class T>
  T& of() {
    static const char key = 0;
    for (const Entry& entry : entries_) {
      if (entry.key == &key) return *static_cast<T*>(entry.scratch);
    }
    auto* scratch = new T();
    entries_.push_back({&key, scratch, [](void* old) { delete static_cast<T*>(old); }});
    return *scratch;
  }

  void* allocate(size_t bytes);
  void free(void* memory, size_t bytes);

 private:
  struct Entry {
    const void* key;
    void* scratch;
    void (*destroy)(void*);
  };

  char* block_;
  size_t size_;
  Space space_;
  std::unordered_map<void*, size_t> offsets_;  // of what is not in the block
  std::vector<Entry> entries_;
};

// Allocates from the set that was in use where the container was made.
template <class T>
class ScratchAllocator {
 public:
  using value_type = T;

  ScratchAllocator() : set_(ScratchSet::current()) {}
  template <class U>
  ScratchAllocator(const ScratchAllocator<U>& other) : set_(other.set()) {}

  T* allocate(size_t n) {
    return static_cast<T*>(set_ != nullptr ? set_->allocate(n * sizeof(T)) : ::operator new(n * sizeof(T)));
  }
  void deallocate(T* memory, size_t n) {
    if (set_ != nullptr) return set_->free(memory, n * sizeof(T));
    ::operator delete(memory);
  }
  ScratchSet* set() const { return set_; }
  bool operator==(const ScratchAllocator& other) const { return set_ == other.set_; }
  bool operator!=(const ScratchAllocator& other) const { return set_ != other.set_; }

 private:
  ScratchSet* set_;
};

template <class T>
using ScratchVector = std::vector<T, ScratchAllocator<T>>;

// What a kernel's thread keeps, by its type: each kernel has one of its own.
template <class T>
T& thread_scratch() {
  if (ScratchSet* set = ScratchSet::current()) return set->of<T>();
  static thread_local T scratch;
  return scratch;
}

// Grows and stays. Begins at a cache line: vectors that cross two are slow to store.
template <class T>
class Buffer {
 public:
  T* sized(int64_t n) {
    constexpr size_t kCacheLine = 64;
    const size_t bytes = static_cast<size_t>(n) * sizeof(T) + kCacheLine;
    if (memory_.size() < bytes) memory_.resize(bytes);
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return reinterpret_cast<T*>((address + kCacheLine - 1) / kCacheLine * kCacheLine);
  }

 private:
  ScratchVector<char> memory_;
};

}  // namespace executorch_ggml::kernels
