// The ExecuTorch delegate: GgmlBackend, registered when this library is loaded.

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>
#include <executorch/runtime/platform/log.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "aligned_bytes.h"
#include "dim_order.h"
#include "element_types.h"
#include "executorch_ggml.h"
#include "interrupt.h"
#include "node_events.h"
#include "open_gguf.h"
#include "program_states.h"
#include "report.h"
#include "session.h"
#include "status.h"

namespace executorch_ggml {
namespace {

namespace et = ::executorch::runtime;
using ::executorch::aten::ScalarType;
using ::executorch::aten::SizesType;
using ::executorch::aten::Tensor;

thread_local uint64_t loaded_states = 0;

constexpr char kGgufName[] = "executorch_ggml.gguf#";  // and a file's id: its name is in the named data

// Constants in the program file or beside it, or in a GGUF file, used where they are mapped.
class NamedData : public ConstantSource {
 public:
  explicit NamedData(const et::NamedDataMap* map) : map_(map) {}
  ~NamedData() override {
    for (et::FreeableBuffer& buffer : buffers_) buffer.Free();
  }

  Status find(const std::string& key, const ggml_tensor* expected, const void** data, size_t* size) override {
    if constexpr (!kIsSelective) {
      in_gguf_ = GgufFiles::is_key(key);
      if (in_gguf_) return find_in_file(key, expected, data, size);
    }
    if (map_ == nullptr)
      return Status::error("constant " + key + ": the program has no weights in it; load its data file (.ptd) with it");
    auto found = map_->get_data(key.c_str());
    if (!found.ok()) {
      return Status::error(format("constant %s: not in the program nor in its data file (error 0x%x)", key.c_str(),
                                  static_cast<unsigned>(found.error())));
    }
    buffers_.push_back(std::move(found.get()));
    *data = buffers_.back().data();
    *size = buffers_.back().size();
    return {};
  }

  void release_last() override {
    if constexpr (!kIsSelective) {
      if (in_gguf_) return files_.back()->unload(last_.first, last_.second);
    }
    buffers_.back().Free();
    buffers_.pop_back();
  }

 private:
  Status find_in_file(const std::string& key, const ggml_tensor* expected, const void** data, size_t* size) {
    std::shared_ptr<const GgufFile> file;
    const Status status = find_in_gguf(key, expected, data, size, &file);
    if (!status.ok()) return Status::error(status.message() + exported_from(key));
    last_ = {*data, *size};
    if (files_.empty() || files_.back() != file) files_.push_back(std::move(file));
    return {};
  }

  // Which GGUF file a key is of, as far as the program tells (partition/backend.py), and how to give it.
  std::string exported_from(const std::string& key) const {
    auto name = map_ == nullptr ? et::Error::NotFound : map_->get_data((kGgufName + GgufFiles::id_of(key)).c_str());
    std::string file;
    if (name.ok()) {
      file = " it was exported from " + std::string(static_cast<const char*>(name->data()), name->size()) + ",";
      name->Free();
    }
    return ";" + file + " which load(gguf=) and --gguf take";
  }

  const et::NamedDataMap* map_;
  std::vector<et::FreeableBuffer> buffers_;
  std::vector<std::shared_ptr<const GgufFile>> files_;  // that what was found lies in
  bool in_gguf_ = false;                                // whether the last does
  std::pair<const void*, size_t> last_;
};

// Resizes ExecuTorch's output tensors, whose memory its planner has given them; sizes come out as integers.
class OutputTensors : public OutputSink {
 public:
  OutputTensors(et::Span<et::EValue*> values, std::vector<int64_t>* integers, std::vector<DenseCopy>* copies)
      : values_(values), integers_(*integers), copies_(*copies) {}

  Status place(size_t index, DType dtype, const std::vector<int64_t>& sizes, void** data) override {
    if (values_[index]->isInt() && dtype == DType::I64 && sizes.empty()) {
      *data = &integers_[index];
      return {};
    }
    if (!values_[index]->isTensor())
      return Status::error(format("output %zu is neither a tensor nor an integer", index));
    Tensor& tensor = values_[index]->toTensor();
    DType given{};
    if (!to_dtype(tensor.scalar_type(), &given) || given != dtype) {
      return Status::error(
          format("output %zu: the graph gives %s, the program's tensor is of another dtype; export the model again",
                 index, dtype_name(dtype)));
    }
    if (sizes.size() > kMaxRank)
      return Status::error(format("output %zu has %zu dims, ExecuTorch takes %zu", index, sizes.size(), kMaxRank));
    SizesType wanted[kMaxRank];
    for (size_t d = 0; d < sizes.size(); ++d) wanted[d] = static_cast<SizesType>(sizes[d]);
    if (et::resize_tensor(tensor, {wanted, sizes.size()}) != et::Error::Ok) {
      return Status::error(
          format("output %zu: shape %s does not fit the memory that was planned for it; export the model with larger "
                 "maximal sizes of its dynamic dims",
                 index, describe_sizes(sizes).c_str()));
    }
    *data = tensor.mutable_data_ptr();
    if (*data == nullptr && tensor.numel() > 0) {
      return Status::error(format("output %zu has no memory; export the program with its outputs planned", index));
    }
    if (!is_dense(tensor)) *data = copies_[index].memory_for(tensor);
    return {};
  }

  // Integers, and tensors in a dim order of their own: what run() has not written to where it belongs.
  void write_back() {
    for (size_t i = 0; i < values_.size(); ++i) {
      if (values_[i]->isInt()) {
        *values_[i] = et::EValue(integers_[i]);
      } else if (const Tensor& tensor = values_[i]->toTensor(); !is_dense(tensor)) {
        copies_[i].write(tensor);
      }
    }
  }

 private:
  static constexpr size_t kMaxRank = 16;
  et::Span<et::EValue*> values_;
  std::vector<int64_t>& integers_;
  std::vector<DenseCopy>& copies_;
};

// The memory that ExecuTorch loads a method with.
class MethodMemory : public MemorySource {
 public:
  explicit MethodMemory(et::MemoryAllocator* allocator) : allocator_(allocator) {}

  void* allocate(size_t bytes) override {
    constexpr size_t kLine = 64;
    void* memory = allocator_ != nullptr ? allocator_->allocate(bytes, kLine) : nullptr;
    failed_ = memory == nullptr;
    return memory;
  }

  bool failed() const { return failed_; }

 private:
  et::MemoryAllocator* allocator_;
  bool failed_ = false;
};

// What init() makes and execute() uses.
struct Handle {
  explicit Handle(const et::NamedDataMap* map) : constants(map) {}
  AlignedBytes ir;
  NamedData constants;
  SharedStates states;
  std::unique_ptr<Session> session;
  std::vector<TensorView> views;
  std::vector<int64_t> sizes;
  std::vector<int64_t> scalars;         // inputs that are integers
  std::vector<int64_t> integers;        // outputs that are
  std::vector<DenseCopy> dense_inputs;  // of tensors in a dim order of their own
  std::vector<DenseCopy> dense_outputs;
};

constexpr size_t kMaxInputRank = 16;

// What methods of a program share: states, and packed weights, which programs of quantized ones tell of.
constexpr bool kSharesBetweenMethods = kHasStates || kHasQuantizedTypes;

class GgmlBackend final : public et::BackendInterface {
 public:
  bool is_available() const override { return true; }

  et::Result<et::DelegateHandle*> init(et::BackendInitContext& context, et::FreeableBuffer* processed,
                                       et::ArrayRef<et::CompileSpec> specs) const override {
    std::unique_ptr<Handle> handle;
    const void* delegate = specs.empty() ? processed->data() : specs[0].value.buffer;
    MethodMemory memory(context.get_runtime_allocator());
    const Status status = without_exceptions([&] { return open(context, *processed, delegate, &memory, &handle); });
    if (memory.failed()) return report(et::Error::MemoryAllocationFailed, status.message());
    if (!status.ok()) return report(et::Error::DelegateInvalidCompatibility, status.message());
    return handle.release();
  }

  et::Error execute(et::BackendExecutionContext& context, et::DelegateHandle* opaque,
                    et::Span<et::EValue*> args) const override {
    auto* handle = static_cast<Handle*>(opaque);
    const size_t inputs = handle->session->inputs().size();
    const size_t outputs = handle->session->outputs().size();
    if (args.size() != inputs + outputs) {
      return report(et::Error::InvalidArgument,
                    format("%zu arguments, expected %zu inputs and %zu outputs", args.size(), inputs, outputs));
    }
    for (size_t i = 0; i < inputs; ++i) {
      const Status status = without_exceptions([&] { return read_input(handle, i, *args[i]); });
      if (!status.ok()) return report(et::Error::InvalidArgument, status.message());
    }
    OutputTensors sink(et::Span<et::EValue*>(args.data() + inputs, outputs), &handle->integers, &handle->dense_outputs);
    Status status;
    if (et::EventTracer* tracer = kIsSelective ? nullptr : delegate_tracer(context)) {
      NodeEvents events(tracer, *handle->session);
      status = handle->session->run(handle->views.data(), inputs, &sink, &events);
      if (status.ok()) events.log();
    } else {
      status = handle->session->run(handle->views.data(), inputs, &sink);
    }
    if (!status.ok()) return report(et::Error::InvalidArgument, status.message());
    sink.write_back();
    return et::Error::Ok;
  }

  // The option "reset_states" puts states back that were loaded with the runtime spec "states" of the same name.
  et::Error set_option(et::BackendOptionContext&, const et::Span<et::BackendOption>& options) override {
    if (!kHasStates && options.size() > 0)
      return report(et::Error::InvalidArgument, "a runtime without states has no options");
    for (const et::BackendOption& option : options) {
      const auto* value = std::get_if<std::array<char, et::kMaxOptionValueLength>>(&option.value);
      if (std::strcmp(option.key, "reset_states") != 0 || value == nullptr) {
        return report(et::Error::InvalidArgument,
                      format("option %s: unknown; there is reset_states, with the states' name", option.key));
      }
      const Status status = without_exceptions([&] {
        const std::string name(value->data());
        if (!name.empty() && SharedStates::reset(name)) return Status();
        return Status::error("reset_states: no loaded program has states named \"" + name + "\"");
      });
      if (!status.ok()) return report(et::Error::NotFound, status.message());
    }
    return et::Error::Ok;
  }

  void destroy(et::DelegateHandle* opaque) const override { delete static_cast<Handle*>(opaque); }

 private:
  // `delegate` is an address in the loaded program that stands for this delegate of it.
  static Status open(et::BackendInitContext& context, const et::FreeableBuffer& processed, const void* delegate,
                     MemorySource* memory, std::unique_ptr<Handle>* made) {
    std::unique_ptr<Handle> handle(new Handle(context.get_named_data_map()));
    SessionOptions options;
    if constexpr (kSharesBetweenMethods) {
      handle->states.join(context, delegate);
      options.states = handle->states.states();
      options.weights = handle->states.weights();
    }
    options.device = default_device();
    if (auto threads = context.get_runtime_spec<int>("num_threads"); threads.ok()) options.threads = threads.get();
    if (auto device = context.get_runtime_spec<const char*>("device"); device.ok()) options.device = device.get();
    if (auto winograd = context.get_runtime_spec<bool>("winograd"); winograd.ok()) options.winograd = winograd.get();
    if (auto fixed = context.get_runtime_spec<bool>("static_memory"); fixed.ok() && fixed.get()) {
      options.memory = memory;
    }
    // A copy, since the graph is read again for each new set of input sizes: what is written to a mapped file after the
    // check must not change it.
    EXECUTORCH_GGML_TRY(handle->ir.allocate(processed.size()));
    if (processed.size() > 0) std::memcpy(handle->ir.data(), processed.data(), processed.size());
    EXECUTORCH_GGML_TRY(
        Session::load(handle->ir.data(), processed.size(), &handle->constants, options, &handle->session));
    const size_t inputs = handle->session->inputs().size();
    handle->views.resize(inputs);
    handle->sizes.resize(inputs * kMaxInputRank);
    handle->scalars.resize(inputs);
    handle->integers.resize(handle->session->outputs().size());
    handle->dense_inputs.resize(inputs);
    handle->dense_outputs.resize(handle->session->outputs().size());
    if (kHasStates && handle->session->state_count() > 0) loaded_states = handle->states.id();
    *made = std::move(handle);
    return {};
  }

  static Status read_input(Handle* handle, size_t index, et::EValue& value) {
    TensorView& view = handle->views[index];
    int64_t* sizes = handle->sizes.data() + index * kMaxInputRank;
    if (value.isInt()) {
      handle->scalars[index] = value.toInt();
      view = {&handle->scalars[index], DType::I64, sizes, 0};
      return {};
    }
    const char* name = handle->session->inputs()[index].name.c_str();
    if (!value.isTensor())
      return Status::error(format("input %zu (%s) is neither a tensor nor an integer", index, name));
    const Tensor& tensor = value.toTensor();
    DType dtype{};
    if (!to_dtype(tensor.scalar_type(), &dtype)) {
      return Status::error(
          format("input %zu (%s): ExecuTorch's dtype #%d is none that ggml has; convert it before the model", index,
                 name, static_cast<int>(tensor.scalar_type())));
    }
    if (static_cast<size_t>(tensor.dim()) > kMaxInputRank) {
      return Status::error(format("input %zu (%s) has %d dims, expected at most %zu", index, name,
                                  static_cast<int>(tensor.dim()), kMaxInputRank));
    }
    for (int d = 0; d < static_cast<int>(tensor.dim()); ++d) sizes[d] = tensor.size(d);
    view = {tensor.mutable_data_ptr(), dtype, sizes, static_cast<int>(tensor.dim())};
    if (view.data == nullptr && tensor.numel() > 0)
      return Status::error(format("input %zu (%s) has no memory; set it before the run", index, name));
    if (!is_dense(tensor)) view.data = handle->dense_inputs[index].read(tensor);
    return {};
  }
};

GgmlBackend backend;
const et::Error registered = et::register_backend({"GgmlBackend", &backend});

}  // namespace
}  // namespace executorch_ggml

extern "C" {

const char* executorch_ggml_last_error(void) { return executorch_ggml::last_error().c_str(); }

void executorch_ggml_clear_error(void) { executorch_ggml::last_error().clear(); }

void executorch_ggml_set_num_threads(int threads) { executorch_ggml::set_default_threads(threads); }

void executorch_ggml_set_device(const char* name) { executorch_ggml::set_default_device(name); }

void executorch_ggml_set_interrupt(int (*check)(void*), void* context) {
  executorch_ggml::set_interrupt(check, context);
}

int executorch_ggml_get_num_threads(void) {
  int threads = 0;
  const executorch_ggml::Status status = executorch_ggml::default_threads(&threads);
  if (status.ok()) return threads;
  executorch_ggml::report(executorch::runtime::Error::InvalidArgument, status.message());
  return 0;
}

uint64_t executorch_ggml_take_states(void) {
  const uint64_t states = executorch_ggml::loaded_states;
  executorch_ggml::loaded_states = 0;
  return states;
}

int executorch_ggml_reset_states(uint64_t states) { return executorch_ggml::SharedStates::reset(states) ? 1 : 0; }

int executorch_ggml_is_registered(void) {
  return executorch_ggml::registered == ::executorch::runtime::Error::Ok ? 1 : 0;
}

}  // extern "C"
