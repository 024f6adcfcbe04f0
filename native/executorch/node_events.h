// A delegate's nodes as events of ExecuTorch's EventTracer.
#pragma once

#include <executorch/runtime/backend/backend_execution_context.h>
#include <executorch/runtime/core/event_tracer_hooks_delegate.h>

#include <vector>

#include "node_observer.h"
#include "session.h"

namespace executorch_ggml {

// The tracer of a call that wants delegates' events; null where none does, or ExecuTorch is built without tracing.
::executorch::runtime::EventTracer* profiling_tracer(::executorch::runtime::BackendExecutionContext& context);

// Takes the time after each node, and logs one event for each node once the run is over.
class NodeEvents final : public NodeObserver {
 public:
  NodeEvents(::executorch::runtime::EventTracer* tracer, const Session& session) : tracer_(tracer), session_(session) {}

  void begin() override;
  void computed(int node, const ggml_tensor* tensor) override;

  // The delegate debug id is the node's number, counted through all graphs of the payload; the metadata is JSON.
  void log() const;

 private:
  struct Event {
    int node;
    const ggml_tensor* tensor;
    et_timestamp_t start;
    et_timestamp_t end;
  };

  ::executorch::runtime::EventTracer* tracer_;
  const Session& session_;
  et_timestamp_t last_ = 0;
  std::vector<Event> events_;
};

}  // namespace executorch_ggml
