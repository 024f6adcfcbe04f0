#include "open_gguf.h"

#include <map>
#include <mutex>
#include <utility>

#include "fork.h"

namespace executorch_ggml {
namespace {

struct Registry {
  Mutex mutex;
  GgufFiles files;
  std::map<uint64_t, const GgufFile*> numbers;
  uint64_t last = 0;
};

Registry& registry() {
  static Registry* made = new Registry();  // delegates may outlive the library's statics
  return *made;
}

}  // namespace

Status open_gguf(const std::string& path, uint64_t* number) {
  std::shared_ptr<const GgufFile> file;
  EXECUTORCH_GGML_TRY(GgufFile::open(path, &file));
  Registry& all = registry();
  std::lock_guard<Mutex> lock(all.mutex);
  all.numbers.emplace(all.last + 1, file.get());
  all.files.add(std::move(file));
  *number = ++all.last;
  return {};
}

bool close_gguf(uint64_t number) {
  Registry& all = registry();
  std::lock_guard<Mutex> lock(all.mutex);
  const auto found = all.numbers.find(number);
  if (found == all.numbers.end()) return false;
  all.files.remove(found->second);
  all.numbers.erase(found);
  return true;
}

Status find_in_gguf(const std::string& key, const ggml_tensor* expected, const void** data, size_t* size,
                    std::shared_ptr<const GgufFile>* file) {
  std::lock_guard<Mutex> lock(registry().mutex);
  return registry().files.find(key, expected, data, size, file);
}

}  // namespace executorch_ggml
