#include "custom_nodes.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace executorch_ggml::devices {
namespace {

// Several libraries of a process may have programs (a delegate, a session), each with numbers of its own.
using ProgramKey = std::pair<uint64_t, const uint8_t*>;

struct Program {
  int64_t number = 0;  // that no other program ever had
  uint64_t size = 0;
  uint64_t nodes = 0;  // that are known now
  std::map<std::vector<int64_t>, int64_t> numbers;
};

struct Known {
  ProgramKey program;
  int64_t node;
  int64_t exprs;
};

std::mutex mutex;
std::map<ProgramKey, Program> programs;
std::unordered_map<const ggml_tensor*, Known> known;
int64_t last_number = 0;

void add_node(const CustomNode& node) {
  const ProgramKey key(node.session, node.program);
  Program& program = programs[key];
  if (program.number == 0) program.number = ++last_number;
  program.size = node.program_size;
  ++program.nodes;
  const std::vector<int64_t> values(node.exprs, node.exprs + node.exprs_count);
  const auto number = program.numbers.emplace(values, static_cast<int64_t>(program.numbers.size())).first->second;
  known[node.tensor] = {key, node.node, number};
}

void remove_node(const CustomNode& node) {
  if (known.erase(node.tensor) == 0) return;
  const auto found = programs.find({node.session, node.program});
  if (--found->second.nodes == 0) programs.erase(found);
}

auto program_of(int64_t number) {
  return std::find_if(programs.begin(), programs.end(),
                      [number](const auto& entry) { return entry.second.number == number; });
}

}  // namespace

void custom_nodes(const CustomNode* nodes, uint64_t count, bool add) {
  std::lock_guard<std::mutex> lock(mutex);
  for (uint64_t i = 0; i < count; ++i) add ? add_node(nodes[i]) : remove_node(nodes[i]);
}

void describe_custom(const ggml_tensor* tensor, int64_t* params) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = known.find(tensor);
  if (found == known.end()) return;
  params[0] = 1;
  params[1] = programs[found->second.program].number;
  params[2] = found->second.node;
  params[3] = found->second.exprs;
}

const uint8_t* custom_program(int64_t number, uint64_t* size) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = program_of(number);
  if (found == programs.end()) return nullptr;
  *size = found->second.size;
  return found->first.second;
}

const int64_t* custom_exprs(int64_t program, int64_t number, uint64_t* count) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = program_of(program);
  if (found == programs.end()) return nullptr;
  for (const auto& [values, of] : found->second.numbers) {
    if (of != number) continue;
    *count = values.size();
    return values.data();
  }
  return nullptr;
}

}  // namespace executorch_ggml::devices
