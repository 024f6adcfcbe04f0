#include "status.h"

#include <cstdarg>
#include <cstdio>

namespace executorch_ggml {

std::string format(const char* pattern, ...) {
  va_list args;
  va_start(args, pattern);
  va_list again;
  va_copy(again, args);
  const int length = std::vsnprintf(nullptr, 0, pattern, args);
  va_end(args);
  std::string text;
  if (length > 0) {
    text.resize(static_cast<size_t>(length) + 1);
    std::vsnprintf(text.data(), text.size(), pattern, again);
    text.resize(static_cast<size_t>(length));
  }
  va_end(again);
  return text;
}

namespace {

// How many bytes the UTF-8 sequence at `text` has; 0 if there is none in the `left` bytes.
size_t sequence_length(const unsigned char* text, size_t left) {
  const unsigned char lead = text[0];
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7F ? 1 : 0;
  const size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                        : lead >= 0xE0 && lead <= 0xEF ? 3
                        : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                       : 0;
  if (length == 0 || length > left) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((text[i] & 0xC0) != 0x80) return 0;
  }
  // Longer than needed, surrogates, beyond the last code point.
  const bool wrong = (lead == 0xE0 && text[1] < 0xA0) || (lead == 0xED && text[1] > 0x9F) ||
                     (lead == 0xF0 && text[1] < 0x90) || (lead == 0xF4 && text[1] > 0x8F);
  return wrong ? 0 : length;
}

}  // namespace

std::string readable(const std::string& text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  std::string made;
  for (size_t i = 0; i < text.size();) {
    const size_t length = sequence_length(bytes + i, text.size() - i);
    made += length == 0 ? "?" : text.substr(i, length);
    i += length == 0 ? 1 : length;
  }
  return made;
}

void RunStatus::fail(const char* pattern, ...) {
  // The flag's holder writes; the message is whole before failed_ says that it may be read.
  if (writing_.test_and_set(std::memory_order_acquire)) {
    return;
  }
  if (!failed_.load(std::memory_order_relaxed)) {
    va_list args;
    va_start(args, pattern);
    std::vsnprintf(message_, sizeof(message_), pattern, args);
    va_end(args);
    failed_.store(true, std::memory_order_release);
  }
  writing_.clear(std::memory_order_release);
}

}  // namespace executorch_ggml
