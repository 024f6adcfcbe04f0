#include "program.h"

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/backend/options.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "executorch_ggml.h"
#include "method.h"
#include "recorder.h"
#include "status.h"

namespace executorch_ggml {
namespace {

namespace et = ::executorch::runtime;
using ::executorch::extension::FlatTensorDataMap;

// The most that a method needs of the memory that methods share; 0 where none is planned.
size_t shared_size(const et::Program& program, const std::vector<std::string>& methods) {
  int64_t most = 0;
  for (const std::string& name : methods) {
    const auto meta = program.method_meta(name.c_str());
    if (!meta.ok() || meta->num_memory_planned_buffers() < 2) continue;
    const auto size = meta->memory_planned_buffer_size(1);
    if (size.ok()) most = std::max(most, size.get());
  }
  return static_cast<size_t>(most);
}

}  // namespace

LoadedProgram::~LoadedProgram() = default;

Status LoadedProgram::load(const std::string& path, const LoadOptions& options,
                           std::unique_ptr<LoadedProgram>* program) {
  return without_exceptions([&]() -> Status {
    executorch_ggml_clear_error();
    std::unique_ptr<LoadedProgram> loaded(new LoadedProgram());
    loaded->device_ = options.device;
    if (options.device.size() >= et::kMaxOptionValueLength) {
      return Status::error(format("device: a list of %zu characters, expected less than %zu; set it with set_device",
                                  options.device.size(), et::kMaxOptionValueLength));
    }
    if (options.record) loaded->recorder_ = std::make_unique<Recorder>(options.values);
    EXECUTORCH_GGML_TRY(loaded->open(path, options.data_path, options.map));
    *program = std::move(loaded);
    return {};
  });
}

Status LoadedProgram::open(const std::string& path, const std::string& data_path, bool map) {
  static std::atomic<uint64_t> programs{0};
  states_ = format("executorch_ggml program %llu", static_cast<unsigned long long>(++programs));
  EXECUTORCH_GGML_TRY(open_loaders(path, data_path, map, &file_, &data_file_));
  auto program = et::Program::load(file_.get(), et::Program::Verification::Minimal);  // the rest is verified already
  if (!program.ok()) return Status::error(path + ": " + describe(program.error()));
  program_ = std::make_unique<et::Program>(std::move(program.get()));
  for (size_t i = 0; i < program_->num_methods(); ++i) {
    const auto name = program_->get_method_name(i);
    if (!name.ok()) return Status::error(format("%s: method %zu: %s", path.c_str(), i, describe(name.error()).c_str()));
    names_.emplace_back(name.get());
  }
  if (const size_t size = shared_size(*program_, names_); size > 0) {
    shared_ = std::make_shared<Arena>();
    EXECUTORCH_GGML_TRY(shared_->open(size));
  }
  if (data_path.empty()) return {};
  auto data = FlatTensorDataMap::load(data_file_.get());
  if (!data.ok()) return Status::error(data_path + ": " + describe(data.error()));
  data_ = std::make_unique<FlatTensorDataMap>(std::move(data.get()));
  return {};
}

Status LoadedProgram::inputs(const std::string& method, std::vector<std::optional<TensorInfo>>* infos) const {
  const auto meta = program_->method_meta(method.c_str());
  return meta.ok() ? input_infos(*meta, infos) : Status::error(describe(meta.error()));
}

Status LoadedProgram::find(const std::string& name, LoadedMethod** method) {
  std::lock_guard<Mutex> lock(loading_);
  forget_interrupted();
  auto found = methods_.find(name);
  if (found == methods_.end()) {
    std::unique_ptr<LoadedMethod> loaded;
    std::unique_lock<Mutex> recording;  // loading is recorded too
    if (recorder_ != nullptr) recording = std::unique_lock<Mutex>(recorder_->in_use());
    EXECUTORCH_GGML_TRY(
        LoadedMethod::load(*program_, name, {states_, device_}, data_.get(), shared_, recorder_.get(), &loaded));
    found = methods_.emplace(name, std::move(loaded)).first;
  }
  *method = found->second.get();
  return {};
}

// ExecuTorch cannot take up a method again that another thread was running when the process was forked, nor end it: it
// is left where it is, and loaded anew.
void LoadedProgram::forget_interrupted() {
  if (generation_ == fork_generation()) return;
  generation_ = fork_generation();
  const bool shared = shared_ != nullptr && shared_->in_use.take_interrupted();
  for (auto entry = methods_.begin(); entry != methods_.end();) {
    const bool interrupted = shared || entry->second->in_use().take_interrupted();
    if (interrupted) (void)entry->second.release();
    entry = interrupted ? methods_.erase(entry) : std::next(entry);
  }
}

Status LoadedProgram::load_method(const std::string& name) {
  LoadedMethod* method = nullptr;
  return without_exceptions([&] { return find(name, &method); });
}

Status LoadedProgram::run(const std::string& name, std::vector<Input>& inputs, std::vector<Output>* outputs) {
  return without_exceptions([&]() -> Status {
    LoadedMethod* method = nullptr;
    EXECUTORCH_GGML_TRY(find(name, &method));
    return method->run(inputs, outputs);
  });
}

Status LoadedProgram::take_recording(Recording* recording) {
  return without_exceptions([&]() -> Status {
    if (recorder_ == nullptr) return Status::error("nothing is recorded; load the program with etdump=True");
    *recording = recorder_->take();
    return {};
  });
}

Status LoadedProgram::reset_states() {
  {
    std::lock_guard<Mutex> lock(loading_);
    const auto uses_ggml = [](const auto& entry) { return entry.second->uses_ggml(); };
    if (std::none_of(methods_.begin(), methods_.end(), uses_ggml)) return {};
  }
  executorch_ggml_clear_error();
  et::BackendOptions<1> options;
  et::Error error = options.set_option("reset_states", states_.c_str());
  if (error == et::Error::Ok) error = et::set_option("GgmlBackend", options.view());
  return error == et::Error::Ok ? Status() : Status::error(describe(error));
}

}  // namespace executorch_ggml
