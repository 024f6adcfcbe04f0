#include "report.h"

#include <executorch/runtime/platform/log.h>

#include "result.h"
#include "status.h"

namespace executorch_ggml {

namespace et = ::executorch::runtime;

std::string& last_error() {
  thread_local std::string message;
  return message;
}

et::Error report(et::Error code, const std::string& message) {
  const Status said = without_exceptions([&] {
    last_error() = readable(message);
    return Status();
  });
  ET_LOG(Error, "GgmlBackend: %s", said.ok() ? last_error().c_str() : said.message().c_str());
  return code;
}

}  // namespace executorch_ggml
