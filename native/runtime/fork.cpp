#include "fork.h"

#include <atomic>

#include "ggml.h"
#include "platform/platform.h"

namespace executorch_ggml {
namespace {

std::atomic<uint64_t> generation{0};

// The lock that ggml takes for moments in each run. Its header is not installed, but its symbol is exported; null where
// it is not.
std::mutex* ggml_lock() {
  return static_cast<std::mutex*>(
      platform::find_symbol_beside(reinterpret_cast<const void*>(&ggml_init), "ggml_critical_section_mutex"));
}

}  // namespace

uint64_t fork_generation() { return generation.load(std::memory_order_relaxed); }

struct ForkListeners {
  std::mutex mutex;
  ForkListener* first = nullptr;
  std::mutex* ggml = ggml_lock();

  static ForkListeners& all() {
    static ForkListeners* listeners = [] {
      platform::at_fork([] { all().mutex.lock(); }, [] { all().mutex.unlock(); }, [] { all().in_child(); });
      return new ForkListeners();  // listeners may outlive the library's statics
    }();
    return *listeners;
  }

  void add(ForkListener* listener) {
    std::lock_guard<std::mutex> lock(mutex);
    listener->next_ = first;
    if (first != nullptr) first->previous_ = listener;
    first = listener;
  }

  void remove(ForkListener* listener) {
    std::lock_guard<std::mutex> lock(mutex);
    (listener->previous_ != nullptr ? listener->previous_->next_ : first) = listener->next_;
    if (listener->next_ != nullptr) listener->next_->previous_ = listener->previous_;
  }

  void in_child() noexcept {
    generation.fetch_add(1, std::memory_order_relaxed);
    if (ggml != nullptr) new (ggml) std::mutex;
    for (ForkListener* listener = first; listener != nullptr; listener = listener->next_) listener->after_fork();
    mutex.unlock();
  }
};

ForkListener::ForkListener() { ForkListeners::all().add(this); }

ForkListener::~ForkListener() { ForkListeners::all().remove(this); }

}  // namespace executorch_ggml
