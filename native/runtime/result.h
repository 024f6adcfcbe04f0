// Errors as values: what went wrong, in a sentence that names the thing.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

namespace executorch_ggml {

// Success, or a message.
class Status {
 public:
  Status() = default;
  static Status error(std::string message) {
    Status status;
    status.message_ = std::move(message);
    return status;
  }
  bool ok() const { return message_.empty(); }
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

#define EXECUTORCH_GGML_TRY(expression)                   \
  do {                                                    \
    ::executorch_ggml::Status try_status_ = (expression); \
    if (!try_status_.ok()) return try_status_;            \
  } while (0)

// Calls a function, and `caught` with a message where the standard library or ggml throws. A build without exceptions
// ends where memory runs out.
template <class Function, class Caught>
auto call_guarded(const Function& function, const Caught& caught) {
#if defined(__cpp_exceptions)
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return caught("out of memory");
  } catch (const std::exception& error) {
    return caught(error.what());
  }
#else
  (void)caught;
  return function();
#endif
}

// Where memory runs out the standard library throws; hosts may be built without exceptions.
template <class Function>
Status without_exceptions(const Function& function) {
  return call_guarded(function, [](const char* error) { return Status::error(error); });
}

}  // namespace executorch_ggml
