#include "device_list.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <locale>
#include <numeric>
#include <sstream>

#include "rpc.h"
#include "status.h"

namespace executorch_ggml {
namespace {

constexpr size_t kMostDevices = 15;  // of ggml's scheduler, beside the CPU

// Of a device's free memory, what weights and states may take where the CPU can have the rest: intermediate values need
// some too.
constexpr double kForWeights = 0.9;

// The parts of a text between its separators, which count for nothing within brackets: RPC[host:port] is a name.
std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  int brackets = 0;
  for (char letter : text) {
    brackets += letter == '[' ? 1 : letter == ']' ? -1 : 0;
    if (letter == separator && brackets == 0) {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  return parts;
}

Status read_share(const std::string& entry, const std::string& text, double* share) {
  std::istringstream stream(text);
  stream.imbue(std::locale::classic());  // the process's may have other decimal points
  stream >> *share;
  if (!stream.fail() && stream.eof() && *share > 0.0 && *share < 1e300) return {};
  return Status::error("device " + readable(entry) + ": expected a share above 0, as in CUDA0=3,CUDA1=1");
}

// Free bytes; false where the device does not tell.
bool free_memory(ggml_backend_t backend, size_t* bytes) {
  const DeviceCall call(backend);
  size_t total = 0;
  ggml_backend_dev_memory(ggml_backend_get_device(backend), bytes, &total);
  return total > 0;
}

}  // namespace

std::string device_name(ggml_backend_t backend) { return ggml_backend_dev_name(ggml_backend_get_device(backend)); }

DeviceList::~DeviceList() {
  for (const Member& member : members_) {
    if (member.backend != nullptr) ggml_backend_free(member.backend);
  }
}

Status DeviceList::open(const std::string& names) {
  if (names.empty()) return {};
  for (const std::string& entry : split(names, ',')) EXECUTORCH_GGML_TRY(add(entry));
  EXECUTORCH_GGML_TRY(check());
  if (members_.size() == 1 && members_[0].backend == nullptr) members_.clear();
  runs_prologue_ = members_.size() > 1 || (!empty() && executorch_ggml::runs_prologue(members_[0].backend));
  return {};
}

Status DeviceList::add(const std::string& entry) {
  const std::vector<std::string> parts = split(entry, '=');
  if (parts[0].empty() || parts.size() > 2) {
    return Status::error("device " + readable(entry) +
                         ": expected a name, or names with commas between and a share for each, as in CUDA0=3,CUDA1=1");
  }
  Member member;
  if (parts.size() == 2) EXECUTORCH_GGML_TRY(read_share(entry, parts[1], &member.share));
  EXECUTORCH_GGML_TRY(open_device(parts[0], &member.backend));
  const auto is_same = [&](const Member& other) {
    const bool both = member.backend != nullptr && other.backend != nullptr;
    return both ? ggml_backend_get_device(member.backend) == ggml_backend_get_device(other.backend)
                : member.backend == other.backend;
  };
  const bool again = std::any_of(members_.begin(), members_.end(), is_same);
  if (member.backend != nullptr) member.shares_memory = shares_memory(member.backend);
  members_.push_back(member);
  return again ? Status::error("device " + readable(parts[0]) + " is in the list twice") : Status();
}

Status DeviceList::check() const {
  if (members_.size() < 2) return {};
  const auto has_share = [](const Member& member) { return member.share > 0.0; };
  const bool some = std::any_of(members_.begin(), members_.end(), has_share);
  if (some && !std::all_of(members_.begin(), members_.end(), has_share)) {
    return Status::error("a list of devices has a share for each of them or for none, as in CUDA0=3,CUDA1=1");
  }
  if (members_.size() > kMostDevices) {
    return Status::error(format("%zu devices, expected at most %zu", members_.size(), kMostDevices));
  }
  for (const Member& member : members_) {
    if (member.backend == nullptr || executorch_ggml::runs_prologue(member.backend)) continue;
    return Status::error("device " + device_name(member.backend) +
                         " takes programs as they are for the CPU; use it by itself");
  }
  return {};
}

std::vector<ggml_backend_t> DeviceList::backends() const {
  std::vector<ggml_backend_t> all;
  for (const Member& member : members_) {
    if (member.backend != nullptr) all.push_back(member.backend);
  }
  return all;
}

devices::CustomNodesFunction DeviceList::custom_nodes() const {
  return members_.size() == 1 ? custom_nodes_of(members_[0].backend) : nullptr;
}

std::vector<double> DeviceList::shares(size_t bytes) const {
  if (members_.size() == 1) return {0.0, 1.0};
  std::vector<double> shares(members_.size() + 1, 0.0);
  for (size_t i = 0; i < members_.size(); ++i) {
    shares[i + 1] = members_[i].share;
    if (members_[i].share <= 0.0 && members_[i].backend != nullptr) shares[i + 1] = room(static_cast<int>(i) + 1);
  }
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  const bool all_tell = std::isfinite(sum);
  for (size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].share > 0.0) continue;
    const bool is_cpu = members_[i].backend == nullptr;
    if (!all_tell || sum <= 0.0) shares[i + 1] = is_cpu ? 0.0 : 1.0;
    if (all_tell && is_cpu) shares[i + 1] = std::max(0.0, static_cast<double>(bytes) - sum);
  }
  return shares;
}

double DeviceList::room(int place) const {
  size_t memory = 0;
  const bool tells = backend(place) != nullptr && free_memory(backend(place), &memory);
  return tells ? static_cast<double>(memory) * kForWeights : std::numeric_limits<double>::infinity();
}

Status DeviceList::check_memory(const std::vector<size_t>& needed) const {
  for (int place = 1; place <= size(); ++place) {
    size_t memory = 0;
    const size_t bytes = needed[static_cast<size_t>(place)];
    if (backend(place) == nullptr || bytes == 0 || !free_memory(backend(place), &memory) || bytes <= memory) continue;
    const std::string name = device_name(backend(place));
    return Status::error(
        format("device %s has %zu bytes of free memory, and the program's weights and states there need %zu; name "
               "several devices, or %s,cpu to leave on the CPU what has no room",
               name.c_str(), memory, bytes, name.c_str()));
  }
  return {};
}

}  // namespace executorch_ggml
