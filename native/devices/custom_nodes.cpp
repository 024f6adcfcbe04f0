#include "custom_nodes.h"

#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace executorch_ggml::devices {
namespace {

struct Program {
  const uint8_t* bytes = nullptr;
  uint64_t size = 0;
  uint64_t nodes = 0;  // that are known now
  std::map<std::vector<int64_t>, int64_t> numbers;
};

struct Known {
  uint64_t session;
  int64_t node;
  int64_t exprs;
};

std::mutex mutex;
std::unordered_map<uint64_t, Program> programs;
std::unordered_map<const ggml_tensor*, Known> known;

void add_node(const CustomNode& node) {
  Program& program = programs[node.session];
  program.bytes = node.program;
  program.size = node.program_size;
  ++program.nodes;
  const std::vector<int64_t> values(node.exprs, node.exprs + node.exprs_count);
  const auto number = program.numbers.emplace(values, static_cast<int64_t>(program.numbers.size())).first->second;
  known[node.tensor] = {node.session, node.node, number};
}

void remove_node(const CustomNode& node) {
  if (known.erase(node.tensor) == 0) return;
  const auto found = programs.find(node.session);
  if (--found->second.nodes == 0) programs.erase(found);
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
  params[1] = static_cast<int64_t>(found->second.session);
  params[2] = found->second.node;
  params[3] = found->second.exprs;
}

const uint8_t* custom_program(int64_t session, uint64_t* size) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = programs.find(static_cast<uint64_t>(session));
  if (found == programs.end()) return nullptr;
  *size = found->second.size;
  return found->second.bytes;
}

const int64_t* custom_exprs(int64_t session, int64_t number, uint64_t* count) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = programs.find(static_cast<uint64_t>(session));
  if (found == programs.end()) return nullptr;
  for (const auto& [values, of] : found->second.numbers) {
    if (of != number) continue;
    *count = values.size();
    return values.data();
  }
  return nullptr;
}

}  // namespace executorch_ggml::devices
