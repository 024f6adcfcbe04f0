// A delegate's nodes as events of ExecuTorch's EventTracer.
#pragma once

#include <executorch/runtime/backend/backend_execution_context.h>
#include <executorch/runtime/core/event_tracer_hooks_delegate.h>

#include <string>
#include <vector>

#include "node_observer.h"
#include "session.h"

namespace executorch_ggml {

// The tracer of a call that wants delegates' events or values; null where none does, or ExecuTorch is built without
// tracing.
::executorch::runtime::EventTracer* delegate_tracer(::executorch::runtime::BackendExecutionContext& context);

// Takes the time after each node, and logs one event for each node once the run is over. Values are logged at once,
// as the traced program has them: the next node may overwrite them.
class NodeEvents final : public NodeObserver {
 public:
  NodeEvents(::executorch::runtime::EventTracer* tracer, const Session& session);

  void begin() override;
  void computed(const NodeStep& step) override;

  // The delegate debug id is the node's number, counted through all graphs of the payload; the metadata is JSON.
  // ExecuTorch's Inspector takes each event with an id for one with a value where any has one: where values are logged,
  // nodes that have none have no id.
  void log() const;

 private:
  struct Event {
    const NodeStep* step;  // the last of the node's
    et_timestamp_t start;
    et_timestamp_t end;
    bool has_value;
  };

  bool log_value(const TracedValue& value);
  int64_t id_of(int node) const { return session_.nodes_before() + node; }
  std::string describe(const NodeStep& step) const;

  ::executorch::runtime::EventTracer* tracer_;
  const Session& session_;
  bool profiles_;
  bool logs_values_;
  et_timestamp_t last_ = 0;
  std::vector<Event> events_;
};

}  // namespace executorch_ggml
