// Which delegates share their states: those of one loaded program.
#pragma once

#include <executorch/runtime/backend/interface.h>

#include <memory>
#include <string>
#include <vector>

#include "packed_weights.h"
#include "states.h"

namespace executorch_ggml {

// What tells a loaded program from others, though ExecuTorch does not name it to its delegates: addresses of what is
// its own. Two programs may lie in one buffer of the host's, and have all but their data maps in common.
struct ProgramIdentity {
  const void* marker = nullptr;  // of a key in the program; null: unknown
  const void* map = nullptr;     // of the program's map of data, where that is what the delegate gets
  const void* key = nullptr;     // of the first key otherwise, when the map is made for each method: the data file's

  bool operator==(const ProgramIdentity& other) const {
    return marker == other.marker && map == other.map && key == other.key;
  }
};

// The states and packed weights of a loaded program, and the delegates that use them.
struct ProgramStates {
  uint64_t id = 0;
  ProgramIdentity program;
  std::string name;                    // what the host calls them (runtime spec "states")
  std::vector<const void*> delegates;  // by an address in the program's description of each
  States states;
  std::shared_ptr<PackedWeights> weights;  // the same for all that is loaded of a program
};

// A delegate's part in them; ends with it.
class SharedStates {
 public:
  SharedStates() = default;
  ~SharedStates();
  SharedStates(const SharedStates&) = delete;
  SharedStates& operator=(const SharedStates&) = delete;

  // Join the states of the program that a delegate is loaded from, and of the name that the host gives. Without a name
  // a delegate that is loaded once more while the first is there gets others: a method loaded again starts over, and
  // the methods loaded after it are with it.
  void join(const ::executorch::runtime::BackendInitContext& context, const void* delegate);

  uint64_t id() const { return group_->id; }
  std::shared_ptr<States> states() const { return {group_, &group_->states}; }
  std::shared_ptr<PackedWeights> weights() const { return group_->weights; }

  // Put back the states with an id, or with the name that the host gave them. False if no loaded program has them.
  static bool reset(uint64_t id);
  static bool reset(const std::string& name);

 private:
  std::shared_ptr<ProgramStates> group_;
  const void* delegate_ = nullptr;
};

}  // namespace executorch_ggml
