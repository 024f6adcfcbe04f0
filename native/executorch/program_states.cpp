#include "program_states.h"

#include <executorch/runtime/executor/merged_data_map.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "fork.h"

namespace executorch_ggml {
namespace {

namespace et = ::executorch::runtime;

// The key of an entry that every program with states or quantized weights has in its named data
// (partition/backend.py).
constexpr char kMarker[] = "executorch_ggml.states";

struct Registry {
  Mutex mutex;
  uint64_t last_id = 0;
  std::vector<std::weak_ptr<ProgramStates>> groups;  // the oldest first
};

Registry& registry() {
  static Registry* made = new Registry();  // delegates may outlive the library's statics
  return *made;
}

// Whether a map is one that ExecuTorch makes for each method, of the program's data and a data file's. An ExecuTorch
// that is built without type information cannot be asked.
bool made_for_method(const et::NamedDataMap* map) {
#if defined(EXECUTORCH_GGML_EXECUTORCH_HAS_RTTI)
  return dynamic_cast<const et::internal::MergedDataMap*>(map) != nullptr;
#else
  return map != nullptr;
#endif
}

ProgramIdentity identify(const et::NamedDataMap* map) {
  ProgramIdentity program;
  if (map == nullptr) return program;
  const auto count = map->get_num_keys();
  for (uint32_t i = 0; count.ok() && i < count.get(); ++i) {
    const auto key = map->get_key(i);
    if (key.ok() && std::strcmp(key.get(), kMarker) == 0) program.marker = key.get();
  }
  if (!made_for_method(map)) {
    program.map = map;
  } else if (const auto first = map->get_key(0); first.ok()) {
    program.key = first.get();
  }
  return program;
}

template <class Matches>
bool reset_where(const Matches& matches) {
  std::vector<std::shared_ptr<ProgramStates>> found;
  {
    std::lock_guard<Mutex> lock(registry().mutex);
    for (const auto& weak : registry().groups) {
      std::shared_ptr<ProgramStates> group = weak.lock();
      if (group != nullptr && matches(*group)) found.push_back(std::move(group));
    }
  }
  for (const auto& group : found) group->states.reset();
  return !found.empty();
}

}  // namespace

void SharedStates::join(const et::BackendInitContext& context, const void* delegate) {
  const ProgramIdentity program = identify(context.get_named_data_map());
  const auto named = context.get_runtime_spec<const char*>("states");
  const std::string name = named.ok() ? named.get() : "";
  Registry& all = registry();
  std::lock_guard<Mutex> lock(all.mutex);
  auto& groups = all.groups;
  groups.erase(std::remove_if(groups.begin(), groups.end(), [](const auto& group) { return group.expired(); }),
               groups.end());
  std::shared_ptr<PackedWeights> weights;
  for (auto it = groups.rbegin(); it != groups.rend() && program.marker != nullptr && group_ == nullptr; ++it) {
    std::shared_ptr<ProgramStates> group = it->lock();
    if (group == nullptr || !(group->program == program)) continue;
    weights = group->weights;
    if (group->name != name) continue;
    const auto& known = group->delegates;
    const bool again = std::find(known.begin(), known.end(), delegate) != known.end();
    if (!again || !name.empty()) group_ = std::move(group);
  }
  if (group_ == nullptr) {
    group_ = std::make_shared<ProgramStates>();
    group_->id = ++all.last_id;
    group_->program = program;
    group_->name = name;
    group_->weights = weights ? weights : std::make_shared<PackedWeights>();
    groups.push_back(group_);
  }
  group_->delegates.push_back(delegate);
  delegate_ = delegate;
}

SharedStates::~SharedStates() {
  if (group_ == nullptr) return;
  std::lock_guard<Mutex> lock(registry().mutex);
  auto& known = group_->delegates;
  const auto found = std::find(known.begin(), known.end(), delegate_);
  if (found != known.end()) known.erase(found);
}

bool SharedStates::reset(uint64_t id) {
  return reset_where([&](const ProgramStates& group) { return group.id == id; });
}

bool SharedStates::reset(const std::string& name) {
  return reset_where([&](const ProgramStates& group) { return group.name == name; });
}

}  // namespace executorch_ggml
