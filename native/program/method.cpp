#include "method.h"

#include <executorch/runtime/backend/backend_options_map.h>
#include <executorch/runtime/backend/options.h>

#include <cinttypes>
#include <cstring>
#include <utility>

#include "executorch_ggml.h"
#include "scalar_types.h"
#include "status.h"
#include "strided_copy.h"

namespace executorch_ggml {
namespace {

namespace et = ::executorch::runtime;
using ::executorch::aten::DimOrderType;
using ::executorch::aten::SizesType;
using ::executorch::aten::StridesType;
using ::executorch::aten::Tensor;
using ::executorch::aten::TensorImpl;

constexpr char kBackend[] = "GgmlBackend";
constexpr size_t kAlignment = 64;

// What ExecuTorch plans under the number 2 (the second of its buffers) are the buffers that methods share, where a
// program was exported with share_mutable_buffers.
constexpr size_t kSharedBuffer = 1;

Status allocate(size_t bytes, OwnMemory* memory) {
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  memory->reset(std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded));
  return *memory != nullptr ? Status() : Status::error(format("no memory for %zu bytes", bytes));
}

std::string text(const int64_t* sizes, int rank) {
  std::string joined;
  for (int d = 0; d < rank; ++d) joined += (d == 0 ? "" : ", ") + std::to_string(sizes[d]);
  return "[" + joined + "]";
}

const char* kind_of(const Input& input) {
  static constexpr const char* kKinds[] = {"NoneType", "bool", "int", "float", "Tensor"};
  return kKinds[input.index()];
}

// Whether the elements lie densely in the order that a method's dims have in memory. The strides of dims of one element
// don't matter, nor those of tensors without elements.
bool lies_in_order(const InputTensor& tensor, const std::vector<int64_t>& dim_order) {
  int64_t elements = 1;
  for (int d = 0; d < tensor.rank; ++d) elements *= tensor.sizes[d];
  if (elements == 0) return true;
  int64_t stride = 1;
  for (int i = tensor.rank - 1; i >= 0; --i) {
    const int64_t d = dim_order[i];
    if (tensor.sizes[d] != 1 && tensor.strides[d] != stride) return false;
    stride *= tensor.sizes[d];
  }
  return true;
}

}  // namespace

Status Arena::open(size_t bytes) {
  // calloc's pages cost nothing until they are used, however much a program asks for.
  size_t room = bytes + kAlignment;
  memory.reset(std::calloc(room, 1));
  if (memory == nullptr) return Status::error(format("no memory for %zu bytes", bytes));
  data = memory.get();
  std::align(kAlignment, bytes, data, room);
  size = bytes;
  return {};
}

std::string describe(et::Error error) {
  const char* delegate = executorch_ggml_last_error();
  if (*delegate != '\0') return delegate;
  return format("ExecuTorch's error 0x%x (%s)", static_cast<unsigned>(error), et::to_string(error));
}

Status input_infos(const et::MethodMeta& meta, std::vector<std::optional<TensorInfo>>* infos) {
  for (size_t i = 0; i < meta.num_inputs(); ++i) {
    const auto tag = meta.input_tag(i);
    if (!tag.ok()) return Status::error(format("input %zu: %s", i, describe(tag.error()).c_str()));
    infos->emplace_back();
    if (tag.get() != et::Tag::Tensor) continue;
    const auto tensor = meta.input_tensor_meta(i);
    if (!tensor.ok()) return Status::error(format("input %zu: %s", i, describe(tensor.error()).c_str()));
    const auto sizes = tensor->sizes();
    const auto order = tensor->dim_order();
    infos->back() = TensorInfo{tensor->scalar_type(), {sizes.begin(), sizes.end()}, {order.begin(), order.end()}};
  }
  return {};
}

Status LoadedMethod::load(const et::Program& program, const std::string& name, const RuntimeSpecs& specs,
                          const et::NamedDataMap* data, std::shared_ptr<Arena> shared, Recorder* recorder,
                          std::unique_ptr<LoadedMethod>* method) {
  executorch_ggml_clear_error();
  std::unique_ptr<LoadedMethod> loaded(new LoadedMethod());
  loaded->shared_ = std::move(shared);
  loaded->recorder_ = recorder;
  const auto meta = program.method_meta(name.c_str());
  if (!meta.ok()) return Status::error(describe(meta.error()));
  EXECUTORCH_GGML_TRY(input_infos(*meta, &loaded->infos_));
  EXECUTORCH_GGML_TRY(loaded->plan_memory(*meta));
  et::BackendOptions<2> options;
  et::LoadBackendOptionsMap for_backends;
  et::Error error = options.set_option("states", specs.states.c_str());
  if (error == et::Error::Ok && !specs.device.empty()) error = options.set_option("device", specs.device.c_str());
  if (error == et::Error::Ok) error = for_backends.set_options(kBackend, options.view());
  if (error != et::Error::Ok) return Status::error(describe(error));
  auto result = program.load_method(name.c_str(), loaded->memory_.get(),
                                    recorder == nullptr ? nullptr : recorder->tracer(), data, &for_backends);
  if (!result.ok()) return Status::error(describe(result.error()));
  loaded->method_ = std::make_unique<et::Method>(std::move(result.get()));
  loaded->copies_.resize(loaded->infos_.size());
  loaded->outputs_.resize(loaded->method_->outputs_size());
  *method = std::move(loaded);
  return {};
}

Status LoadedMethod::plan_memory(const et::MethodMeta& meta) {
  for (size_t i = 0; i < meta.num_memory_planned_buffers(); ++i) {
    const auto device = meta.memory_planned_buffer_device(i);
    if (device.ok() && device->type() != et::etensor::DeviceType::CPU) {
      return Status::error(format("buffer %zu is planned in an accelerator's memory; use executorch.runtime", i));
    }
    const auto size = meta.memory_planned_buffer_size(i);
    if (!size.ok()) return Status::error(describe(size.error()));
    const Arena* arena = shared_.get();
    if (i != kSharedBuffer || arena == nullptr) {
      arenas_.push_back(std::make_unique<Arena>());
      EXECUTORCH_GGML_TRY(arenas_.back()->open(static_cast<size_t>(size.get())));
      arena = arenas_.back().get();
    }
    spans_.emplace_back(static_cast<uint8_t*>(arena->data), static_cast<size_t>(size.get()));
  }
  planned_ = std::make_unique<et::HierarchicalAllocator>(et::Span<et::Span<uint8_t>>(spans_.data(), spans_.size()));
  memory_ = std::make_unique<et::MemoryManager>(&for_loading_, planned_.get(), &for_running_);
  return {};
}

bool LoadedMethod::uses_ggml() const { return method_->method_meta().uses_backend(kBackend); }

Status LoadedMethod::run(std::vector<Input>& inputs, std::vector<Output>* outputs) {
  std::lock_guard<Mutex> lock(in_use());
  std::unique_lock<Mutex> recording;
  if (recorder_ != nullptr) recording = std::unique_lock<Mutex>(recorder_->in_use());
  executorch_ggml_clear_error();
  EXECUTORCH_GGML_TRY(place_outputs());
  EXECUTORCH_GGML_TRY(set_inputs(inputs));
  const et::Error error = method_->execute();
  if (error != et::Error::Ok) return Status::error(describe(error));
  return take_outputs(outputs);
}

Status LoadedMethod::set_inputs(std::vector<Input>& inputs) {
  if (inputs.size() != infos_.size()) {
    return Status::error(format("%zu inputs given, expected %zu", inputs.size(), infos_.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto* tensor = std::get_if<InputTensor>(&inputs[i]);
    if ((tensor != nullptr) != infos_[i].has_value()) {
      return Status::error(format("input %zu: a %s, expected a %s", i, kind_of(inputs[i]),
                                  infos_[i].has_value() ? "torch tensor" : "number"));
    }
    if (tensor != nullptr) {
      EXECUTORCH_GGML_TRY(check_tensor(i, *tensor));
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    et::Error error = et::Error::Ok;
    if (const auto* tensor = std::get_if<InputTensor>(&inputs[i])) {
      const Status status = set_tensor(i, *tensor);
      if (!status.ok()) {
        const std::string shapes = shapes_fault(inputs);
        return shapes.empty() ? status : Status::error(shapes);
      }
      continue;
    }
    if (const auto* number = std::get_if<int64_t>(&inputs[i])) error = method_->set_input(et::EValue(*number), i);
    if (const auto* number = std::get_if<double>(&inputs[i])) error = method_->set_input(et::EValue(*number), i);
    if (const auto* truth = std::get_if<bool>(&inputs[i])) error = method_->set_input(et::EValue(*truth), i);
    if (std::holds_alternative<std::monostate>(inputs[i])) error = method_->set_input(et::EValue(), i);
    if (error != et::Error::Ok) return Status::error(format("input %zu: %s", i, describe(error).c_str()));
  }
  return {};
}

Status LoadedMethod::check_tensor(size_t index, const InputTensor& tensor) const {
  const TensorInfo& expected = *infos_[index];
  const int rank = static_cast<int>(expected.sizes.size());
  if (tensor.dtype != expected.dtype) {
    const char* name = scalar_type_name(expected.dtype);
    return Status::error(format("input %zu: dtype %s, expected %s; convert it with .to(%s)", index,
                                scalar_type_name(tensor.dtype), name, name));
  }
  if (tensor.rank != rank) {
    return Status::error(format("input %zu: shape %s has %d dims, expected %d", index,
                                text(tensor.sizes, tensor.rank).c_str(), tensor.rank, rank));
  }
  for (int d = 0; d < rank; ++d) {
    if (tensor.sizes[d] <= expected.sizes[d]) continue;
    return Status::error(format("input %zu: size %" PRId64 " in dim %d, expected at most %" PRId64
                                ", which the program was planned for",
                                index, tensor.sizes[d], d, expected.sizes[d]));
  }
  return {};
}

Status LoadedMethod::set_tensor(size_t index, const InputTensor& tensor) {
  const std::vector<int64_t>& order = infos_[index]->dim_order;
  SizesType sizes[kMaxRank];
  StridesType strides[kMaxRank];
  DimOrderType dim_order[kMaxRank];
  int64_t planned[kMaxRank];
  int64_t stride = 1;
  for (int i = tensor.rank - 1; i >= 0; --i) {
    const int64_t d = order[i];
    sizes[d] = static_cast<SizesType>(tensor.sizes[d]);  // no more than the method's
    dim_order[i] = static_cast<DimOrderType>(d);
    planned[d] = stride;
    strides[d] = static_cast<StridesType>(stride);
    stride *= tensor.sizes[d] == 0 ? 1 : tensor.sizes[d];
  }
  TensorImpl impl(tensor.dtype, tensor.rank, sizes, tensor.data, dim_order, strides);
  if (!lies_in_order(tensor, order)) {
    EXECUTORCH_GGML_TRY(allocate(impl.nbytes(), &copies_[index]));
    copy_strided(copies_[index].get(), planned, tensor.data, tensor.strides, tensor.sizes, tensor.rank,
                 impl.element_size());
    impl.set_data(copies_[index].get());
  }
  const et::Error error = method_->set_input(et::EValue(Tensor(&impl)), index);
  return error == et::Error::Ok ? Status() : Status::error(format("input %zu: %s", index, describe(error).c_str()));
}

// Sizes below the planned ones are right in dynamic dims, which the metadata doesn't tell from the others.
std::string LoadedMethod::shapes_fault(const std::vector<Input>& inputs) const {
  std::string smaller;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto* tensor = std::get_if<InputTensor>(&inputs[i]);
    if (tensor == nullptr) continue;
    const std::vector<int64_t>& planned = infos_[i]->sizes;
    if (std::equal(planned.begin(), planned.end(), tensor->sizes)) continue;
    smaller += (smaller.empty() ? "" : ", ") + text(tensor->sizes, tensor->rank) + " for " +
               text(planned.data(), tensor->rank);
  }
  return smaller.empty() ? "" : "input shapes " + smaller + ": less is possible in dynamic dims only";
}

// Outputs without planned memory get some that becomes the caller's.
Status LoadedMethod::place_outputs() {
  const et::MethodMeta meta = method_->method_meta();
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const auto tag = meta.output_tag(i);
    if (!tag.ok() || tag.get() != et::Tag::Tensor) continue;
    const auto info = meta.output_tensor_meta(i);
    if (!info.ok() || info->is_memory_planned()) continue;
    EXECUTORCH_GGML_TRY(allocate(info->nbytes(), &outputs_[i]));
    // Refused for constants, which have memory already.
    if (method_->set_output_data_ptr(outputs_[i].get(), info->nbytes(), i) != et::Error::Ok) outputs_[i].reset();
  }
  return {};
}

Status LoadedMethod::take_outputs(std::vector<Output>* outputs) {
  outputs->reserve(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const et::EValue& value = method_->get_output(i);
    if (value.isTensor()) {
      EXECUTORCH_GGML_TRY(take_tensor(i, value.toTensor(), outputs));
    } else if (value.isInt()) {
      outputs->emplace_back(value.toInt());
    } else if (value.isDouble()) {
      outputs->emplace_back(value.toDouble());
    } else if (value.isBool()) {
      outputs->emplace_back(value.toBool());
    } else if (value.isString()) {
      const auto string = value.toString();
      outputs->emplace_back(std::string(string.data(), string.size()));
    } else if (value.isNone()) {
      outputs->emplace_back();
    } else {
      return Status::error(format("output %zu is neither a tensor nor a number nor a string", i));
    }
  }
  return {};
}

Status LoadedMethod::take_tensor(size_t index, const Tensor& tensor, std::vector<Output>* outputs) {
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  OutputTensor output{nullptr, tensor.scalar_type(), {sizes.begin(), sizes.end()}, {strides.begin(), strides.end()}};
  if (outputs_[index] != nullptr && tensor.const_data_ptr() == outputs_[index].get()) {
    output.data = std::move(outputs_[index]);
  } else {
    EXECUTORCH_GGML_TRY(allocate(tensor.nbytes(), &output.data));
    if (tensor.nbytes() > 0) std::memcpy(output.data.get(), tensor.const_data_ptr(), tensor.nbytes());
  }
  outputs->emplace_back(std::move(output));
  return {};
}

}  // namespace executorch_ggml
