// What went wrong in a run, set by any thread of it; and how messages are made.
#pragma once

#include <atomic>
#include <string>

namespace executorch_ggml {

#if defined(__GNUC__)
#define EXECUTORCH_GGML_PRINTF(pattern, first) __attribute__((format(printf, pattern, first)))
#else
#define EXECUTORCH_GGML_PRINTF(pattern, first)
#endif

// printf into a string.
std::string format(const char* pattern, ...) EXECUTORCH_GGML_PRINTF(1, 2);

// The text as UTF-8 without control characters, a question mark for each byte that is neither. Names in a program may
// hold any bytes, and hosts end at a log line or message that does.
std::string readable(const std::string& text);

// The first failure of a run. Kernels run on several threads: the first to fail writes, the others are ignored.
class RunStatus {
 public:
  bool ok() const { return !failed_.load(std::memory_order_acquire); }
  void clear() { failed_.store(false, std::memory_order_release); }
  void fail(const char* pattern, ...) EXECUTORCH_GGML_PRINTF(2, 3);
  const char* message() const { return message_; }

 private:
  std::atomic<bool> failed_{false};
  std::atomic_flag writing_ = ATOMIC_FLAG_INIT;
  char message_[256] = {0};
};

}  // namespace executorch_ggml
