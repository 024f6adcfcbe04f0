#include "node_events.h"

#include <executorch/runtime/platform/platform.h>

#include <string>

#include "ggml-backend.h"
#include "result.h"
#include "status.h"

namespace executorch_ggml {
namespace {

namespace et = ::executorch::runtime;

et_timestamp_t now() { return et::pal_current_ticks(); }

// The device in whose memory a tensor is, by ggml's name.
const char* device_of(const ggml_tensor* tensor) {
  if (tensor->buffer == nullptr) return "CPU";
  ggml_backend_dev_t device = ggml_backend_buft_get_device(ggml_backend_buffer_get_type(tensor->buffer));
  return device != nullptr ? ggml_backend_dev_name(device) : "CPU";
}

// What ggml's tensor is: the event's metadata.
std::string describe_event(const ggml_tensor* tensor) {
  return format("{\"kernel\":\"%s\",\"op\":\"%s\",\"type\":\"%s\",\"device\":\"%s\",\"shape\":[%lld,%lld,%lld,%lld]}",
                tensor->op == GGML_OP_CUSTOM ? "own" : "ggml", ggml_op_desc(tensor), ggml_type_name(tensor->type),
                device_of(tensor), static_cast<long long>(tensor->ne[3]), static_cast<long long>(tensor->ne[2]),
                static_cast<long long>(tensor->ne[1]), static_cast<long long>(tensor->ne[0]));
}

}  // namespace

et::EventTracer* profiling_tracer(et::BackendExecutionContext& context) {
#ifdef ET_EVENT_TRACER_ENABLED
  et::EventTracer* tracer = context.event_tracer();
  const bool wants =
      tracer != nullptr && tracer->event_tracer_profiling_level() == et::EventTracerProfilingLevel::kProfileAllEvents;
  return wants ? tracer : nullptr;
#else
  (void)context;
  return nullptr;
#endif
}

void NodeEvents::begin() { last_ = now(); }

void NodeEvents::computed(int node, const ggml_tensor* tensor) {
  const et_timestamp_t time = now();
  const bool continues = !events_.empty() && events_.back().node == node;
  if (continues) {
    events_.back().end = time;
    events_.back().tensor = tensor;
  } else {
    events_.push_back({node, tensor, last_, time});
  }
  last_ = now();
}

void NodeEvents::log() const {
  for (const Event& event : events_) {
    const std::string metadata = describe_event(event.tensor);
    const bool is_node = event.node >= 0;
    const auto id = is_node ? static_cast<et::DelegateDebugIntId>(session_.nodes_before() + event.node)
                            : et::kUnsetDelegateDebugIntId;
    et::event_tracer_log_profiling_delegate(tracer_, is_node ? nullptr : "copy to an output",
                                            static_cast<et::DebugHandle>(id), event.start, event.end, metadata.data(),
                                            metadata.size());
  }
}

}  // namespace executorch_ggml
