#include "prepared_graphs.h"

#include <utility>

namespace executorch_ggml {
namespace {

// The capacity of the cache.
constexpr size_t kMaxPrepared = 8;

}  // namespace

Status PreparedGraphs::find(const std::vector<int64_t>& key, PreparedGraph** found) {
  for (auto it = graphs_.begin(); it != graphs_.end(); ++it) {
    if ((*it)->key() != key) continue;
    *found = use(it);
    return {};
  }
  Shapes shapes;
  EXECUTORCH_GGML_TRY(bind_sizes(*graph_, key, &shapes));
  for (auto it = graphs_.begin(); it != graphs_.end(); ++it) {
    if (!(*it)->takes(key, shapes)) continue;
    *found = use(it);
    return {};
  }
  std::unique_ptr<PreparedGraph> made;
  EXECUTORCH_GGML_TRY(make_(key, std::move(shapes), working_memory(), &made));
  if (made->memory() != nullptr) move_to(made->memory());
  graphs_.push_front(std::move(made));
  make_room();
  *found = graphs_.front().get();
  return {};
}

PreparedGraph* PreparedGraphs::use(List::iterator graph) {
  graphs_.splice(graphs_.begin(), graphs_, graph);
  return graphs_.front().get();
}

std::shared_ptr<WorkingMemory> PreparedGraphs::working_memory() const {
  for (const auto& graph : graphs_) {
    if (graph->memory() != nullptr) return graph->memory();
  }
  return nullptr;
}

void PreparedGraphs::move_to(const std::shared_ptr<WorkingMemory>& memory) {
  for (const auto& graph : graphs_) graph->move_to(memory);
}

size_t PreparedGraphs::held_memory() const {
  const std::shared_ptr<WorkingMemory> memory = working_memory();
  size_t bytes = memory != nullptr ? memory->size() : 0;
  for (const auto& graph : graphs_) bytes += graph->device_memory();
  return bytes;
}

// Evicts the least recently used until the rest are few enough and within the memory limit.
void PreparedGraphs::make_room() {
  while (graphs_.size() > 1 && (graphs_.size() > kMaxPrepared || held_memory() > memory_limit_)) graphs_.pop_back();
}

}  // namespace executorch_ggml
