// An LRU cache of a program's prepared graphs, by the sizes of inputs.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "prepared_graph.h"

namespace executorch_ggml {

// They share one working memory: one of them runs at a time.
class PreparedGraphs {
 public:
  using Make = std::function<Status(std::vector<int64_t> key, Shapes shapes, std::shared_ptr<WorkingMemory> memory,
                                    std::unique_ptr<PreparedGraph>* made)>;

  // The least recently used are evicted where all need more than `memory_limit` bytes together.
  PreparedGraphs(const fb::Graph& graph, Make make, size_t memory_limit)
      : graph_(&graph), make_(std::move(make)), memory_limit_(memory_limit) {}

  // The graph for inputs of a key, built on a miss. It stays valid until it is evicted as the least recently used.
  Status find(const std::vector<int64_t>& key, PreparedGraph** found);

  size_t size() const { return graphs_.size(); }

  // Null as long as no graph needs any.
  std::shared_ptr<WorkingMemory> working_memory() const;

  // Lets go of it for other memory, at least as large.
  void move_to(const std::shared_ptr<WorkingMemory>& memory);

 private:
  using List = std::list<std::unique_ptr<PreparedGraph>>;  // the last used first

  PreparedGraph* use(List::iterator graph);
  size_t held_memory() const;
  void make_room();

  const fb::Graph* graph_;
  Make make_;
  size_t memory_limit_;
  List graphs_;
};

}  // namespace executorch_ggml
