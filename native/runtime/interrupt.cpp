#include "interrupt.h"

#include <cstdint>

#include "platform/platform.h"
#include "selection_generated.h"

namespace executorch_ggml {
namespace {

// Nanoseconds between two checks: rare, since a check may wait for the GIL; a tenth of a second feels immediate.
constexpr int64_t kInterval = 100'000'000;

// It is read after each node.
int64_t now() { return platform::coarse_time().count(); }

// To read the clock counts in a short graph's time. Control flow may run many of them in one call.
constexpr unsigned kShortGraphs = 64;

struct Interrupt {
  InterruptCheck check = nullptr;
  void* context = nullptr;
  int64_t next = 0;  // when to check; 0: the clock was not read yet
  unsigned graphs = 0;
  bool can_end = false;
  const RunStatus* status = nullptr;
  NodeSteps* steps = nullptr;
};

thread_local Interrupt interrupt;

}  // namespace

void set_interrupt(InterruptCheck check, void* context) { interrupt = {check, context, 0, 0, false, nullptr, nullptr}; }

void begin_run(bool is_short, const RunStatus* status, NodeSteps* steps) {
  Interrupt& mine = interrupt;
  mine.status = status;
  mine.steps = steps;
  mine.can_end = mine.check != nullptr && (!is_short || ++mine.graphs % kShortGraphs == 0);
}

void end_run() { interrupt.steps = nullptr; }

void commit_run() { interrupt.can_end = false; }

bool run_is_interrupted(void*) {
  Interrupt& mine = interrupt;
  if (!kIsSelective && mine.steps != nullptr) mine.steps->next();
  if (mine.status != nullptr && !mine.status->ok()) return true;
  if (!mine.can_end) return false;
  const int64_t time = now();
  const bool wanted = mine.next != 0 && time >= mine.next && mine.check(mine.context) != 0;
  if (time >= mine.next) mine.next = now() + kInterval;
  return wanted;
}

}  // namespace executorch_ggml
