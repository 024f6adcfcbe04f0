#include "node_events.h"

#include <executorch/runtime/platform/log.h>
#include <executorch/runtime/platform/platform.h>

#include <cctype>

#include "element_types.h"
#include "ggml-backend.h"
#include "result.h"
#include "status.h"

namespace executorch_ggml {
namespace {

namespace et = ::executorch::runtime;
using ::executorch::aten::DimOrderType;
using ::executorch::aten::ScalarType;
using ::executorch::aten::SizesType;
using ::executorch::aten::StridesType;
using ::executorch::aten::Tensor;
using ::executorch::aten::TensorImpl;

// Names of events that have no id. ExecuTorch's Inspector takes a digit in a name for an id.
constexpr char kNoValue[] = "no value";
constexpr char kCopy[] = "copy to an output";

et_timestamp_t now() { return et::pal_current_ticks(); }

// The device in whose memory a tensor is, by ggml's name.
const char* device_of(const ggml_tensor* tensor) {
  if (tensor->buffer == nullptr) return "CPU";
  ggml_backend_dev_t device = ggml_backend_buft_get_device(ggml_backend_buffer_get_type(tensor->buffer));
  return device != nullptr ? ggml_backend_dev_name(device) : "CPU";
}

// What ggml's tensor is.
std::string describe_tensor(const ggml_tensor* tensor) {
  return format("\"kernel\":\"%s\",\"op\":\"%s\",\"type\":\"%s\",\"device\":\"%s\",\"shape\":[%lld,%lld,%lld,%lld]",
                tensor->op == GGML_OP_CUSTOM ? "own" : "ggml", ggml_op_desc(tensor), ggml_type_name(tensor->type),
                device_of(tensor), static_cast<long long>(tensor->ne[3]), static_cast<long long>(tensor->ne[2]),
                static_cast<long long>(tensor->ne[1]), static_cast<long long>(tensor->ne[0]));
}

// A node's name as a word of JSON.
std::string name_of(const fb::Node& node) {
  std::string name = node.name() != nullptr ? node.name()->str() : "";
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.') c = '_';
  }
  return name;
}

bool profiles(et::EventTracer* tracer) {
  return tracer->event_tracer_profiling_level() == et::EventTracerProfilingLevel::kProfileAllEvents;
}

bool logs_values(et::EventTracer* tracer) {
  return tracer->event_tracer_debug_level() >= et::EventTracerDebugLogLevel::kIntermediateOutputs;
}

// As float where they are of half types: ExecuTorch writes a damaged ETDump of these.
std::vector<char> widened(std::vector<char> elements, DType* dtype) {
  const bool is_half = *dtype == DType::F16 || *dtype == DType::Bf16;
  if (!is_half) return elements;
  const size_t count = elements.size() / 2;
  std::vector<char> floats(count * sizeof(float));
  auto* to = reinterpret_cast<float*>(floats.data());
  if (*dtype == DType::F16) {
    ggml_fp16_to_fp32_row(reinterpret_cast<const ggml_fp16_t*>(elements.data()), to, static_cast<int64_t>(count));
  } else {
    ggml_bf16_to_fp32_row(reinterpret_cast<const ggml_bf16_t*>(elements.data()), to, static_cast<int64_t>(count));
  }
  *dtype = DType::F32;
  return floats;
}

}  // namespace

et::EventTracer* delegate_tracer(et::BackendExecutionContext& context) {
#ifdef ET_EVENT_TRACER_ENABLED
  et::EventTracer* tracer = context.event_tracer();
  return tracer != nullptr && (profiles(tracer) || logs_values(tracer)) ? tracer : nullptr;
#else
  (void)context;
  return nullptr;
#endif
}

NodeEvents::NodeEvents(et::EventTracer* tracer, const Session& session)
    : tracer_(tracer), session_(session), profiles_(profiles(tracer)), logs_values_(logs_values(tracer)) {}

void NodeEvents::begin() { last_ = now(); }

void NodeEvents::computed(const NodeStep& step) {
  const et_timestamp_t time = now();
  const bool continues = !events_.empty() && events_.back().step->node == step.node;
  if (!continues) events_.push_back({&step, last_, time, false});
  Event& event = events_.back();
  event.step = &step;
  event.end = time;
  if (logs_values_ && step.value != nullptr) event.has_value = log_value(*step.value);
  last_ = now();
}

bool NodeEvents::log_value(const TracedValue& value) {
  ScalarType type{};
  DType dtype = value.dtype;
  std::vector<char> elements = widened(read_traced(value), &dtype);
  if (elements.empty() || !to_scalar_type(dtype, &type)) return false;
  const size_t rank = value.sizes.size();
  SizesType sizes[kMaxTracedRank];
  StridesType strides[kMaxTracedRank];
  DimOrderType order[kMaxTracedRank];
  int64_t stride = 1;
  for (size_t d = rank; d-- > 0;) {
    sizes[d] = static_cast<SizesType>(value.sizes[d]);
    strides[d] = static_cast<StridesType>(stride);
    order[d] = static_cast<DimOrderType>(d);
    stride *= value.sizes[d];
  }
  TensorImpl impl(type, static_cast<ssize_t>(rank), sizes, elements.data(), order, strides);
  const auto logged = tracer_->log_intermediate_output_delegate(
      nullptr, static_cast<et::DelegateDebugIntId>(id_of(value.node)), Tensor(&impl));
  if (!logged.ok()) {
    ET_LOG(Error, "GgmlBackend: the value of node %s is not logged (error 0x%x)",
           name_of(session_.node(value.node)).c_str(), static_cast<unsigned>(logged.error()));
  }
  return logged.ok() && logged.get();
}

std::string NodeEvents::describe(const NodeStep& step) const {
  std::string text = "{" + describe_tensor(step.tensor);
  if (step.node >= 0) text += format(",\"node\":\"%s\"", name_of(session_.node(step.node)).c_str());
  std::string ids;
  std::string names;
  for (const int node : step.joined) {
    ids += format("%s%lld", ids.empty() ? "" : ",", static_cast<long long>(id_of(node)));
    names += format("%s\"%s\"", names.empty() ? "" : ",", name_of(session_.node(node)).c_str());
  }
  if (!ids.empty()) text += format(",\"joined\":[%s],\"joined_nodes\":[%s]", ids.c_str(), names.c_str());
  return text + "}";
}

void NodeEvents::log() const {
  for (const Event& event : events_) {
    if (!profiles_) break;
    const std::string metadata = describe(*event.step);
    const int node = event.step->node;
    const bool by_id = node >= 0 && (event.has_value || !logs_values_);
    const auto id = by_id ? static_cast<et::DelegateDebugIntId>(id_of(node)) : et::kUnsetDelegateDebugIntId;
    et::event_tracer_log_profiling_delegate(tracer_,
                                            by_id       ? nullptr
                                            : node >= 0 ? kNoValue
                                                        : kCopy,
                                            static_cast<et::DebugHandle>(id), event.start, event.end, metadata.data(),
                                            metadata.size());
  }
}

}  // namespace executorch_ggml
