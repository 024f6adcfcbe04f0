// The graphs of a program that are ready, each for other sizes of inputs.
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

  // Those not used for longest are dropped where they need more than `memory_limit` bytes together.
  PreparedGraphs(const fb::Graph& graph, Make make, size_t memory_limit)
      : graph_(&graph), make_(std::move(make)), memory_limit_(memory_limit) {}

  // The one for inputs of a key, made where there is none. It stays for so long as few others are asked for.
  Status find(const std::vector<int64_t>& key, PreparedGraph** found);

  size_t size() const { return graphs_.size(); }

  // Null before a graph needs some.
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
