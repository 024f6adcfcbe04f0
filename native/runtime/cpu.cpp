#include "cpu.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <future>
#include <thread>
#include <utility>

#include "devices.h"
#include "interrupt.h"
#include "resource_limits.h"
#include "status.h"
#include "thread_pool.h"

namespace executorch_ggml {
namespace {

// How long ggml's idle threads spin before they sleep, on its scale of 0 to 100: 1 is about a millisecond. Longer would
// starve the host's own threads between two runs.
constexpr uint32_t kPoll = 1;

constexpr char kVariable[] = "EXECUTORCH_GGML_NUM_THREADS";

std::atomic<int> chosen_threads{0};

int cores() {
  static const int count =
      static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, unsigned{GGML_MAX_N_THREADS}));
  return count;
}

// ggml aborts where a thread of a pool does not start: as many are started and ended before.
Status check_threads(int count) {
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  std::vector<std::thread> threads(count);
  const auto start = [&] {
    for (std::thread& thread : threads) thread = std::thread([ended] { ended.wait(); });
    return Status();
  };
  const Status status = call_guarded(start, [count](const char* error) {
    return Status::error(format("cannot start %d threads: %s; use fewer", count, error));
  });
  end.set_value();
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  return status;
}

template <class Function>
Function cpu_function(ggml_backend_dev_t device, const char* name) {
  return reinterpret_cast<Function>(ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), name));
}

// Divides the cores among the runs in progress.
class Cores {
 public:
  static Cores& all() {
    static Cores* shared = new Cores();  // runs may outlive the library's statics
    return *shared;
  }

  // How many threads a run that wants so many gets: its share of the cores, or those that are free if they are fewer.
  // It always gets the thread that it is called on, and all that it wants where nothing else runs.
  int take(int wanted) {
    std::lock_guard<Mutex> lock(mutex_);
    if (generation_ != fork_generation()) {  // the runs went on in the parent
      generation_ = fork_generation();
      wanted_.clear();
      busy_ = 0;
    }
    const int free = cores() - busy_;
    const int threads = wanted_.empty() ? wanted : std::clamp(std::min(share(), free), 1, wanted);
    wanted_.insert(std::upper_bound(wanted_.begin(), wanted_.end(), wanted), wanted);
    busy_ += threads;
    return threads;
  }

  void give_back(int wanted, int threads, uint64_t generation) {
    std::lock_guard<Mutex> lock(mutex_);
    if (generation != generation_) return;
    wanted_.erase(std::lower_bound(wanted_.begin(), wanted_.end(), wanted));
    busy_ -= threads;
  }

 private:
  // What one more run may have: runs that want less than an equal part leave the rest to the others.
  int share() const {
    int left = cores();
    int sharers = static_cast<int>(wanted_.size()) + 1;
    for (int wanted : wanted_) {
      if (wanted > left / sharers) break;
      left -= wanted;
      --sharers;
    }
    return left / sharers;
  }

  Mutex mutex_;
  uint64_t generation_ = fork_generation();
  std::vector<int> wanted_;  // by each run in progress, the least first
  int busy_ = 0;
};

}  // namespace

void set_default_threads(int threads) { chosen_threads = threads; }

Status default_threads(int* threads) {
  *threads = chosen_threads.load();
  if (*threads > 0) return {};
  const char* text = std::getenv(kVariable);
  if (text == nullptr || *text == '\0') {
    *threads = cores();
    return {};
  }
  char* end = nullptr;
  errno = 0;
  const long number = std::strtol(text, &end, 10);
  if (*end != '\0' || errno != 0 || number < 1 || number > GGML_MAX_N_THREADS) {
    return Status::error(format("%s is \"%s\", expected a whole number from 1 to %d; unset it for one thread a core",
                                kVariable, text, GGML_MAX_N_THREADS));
  }
  *threads = static_cast<int>(number);
  return {};
}

Status read_allowed_isa(kernels::Isa* most) {
  if (kernels::allowed_isa(most)) return {};
  std::string names;
  for (int isa = 0; isa <= static_cast<int>(kernels::Isa::Amx); ++isa) {
    if (!kernels::is_of_architecture(static_cast<kernels::Isa>(isa))) continue;
    names += (names.empty() ? "" : ", ") + std::string(kernels::isa_name(static_cast<kernels::Isa>(isa)));
  }
  return Status::error("EXECUTORCH_GGML_CPU is " + readable(std::getenv("EXECUTORCH_GGML_CPU")) + "; expected one of " +
                       names + ", or nothing");
}

Status Lane::open(int threads, ggml_abort_callback abort, std::unique_ptr<Lane>* lane) {
  ggml_backend_dev_t device = nullptr;
  EXECUTORCH_GGML_TRY(find_cpu(&device));
  if (!can_allocate(kGgmlObject)) return Status::error(format("no memory for a pool of %d threads", threads));
  EXECUTORCH_GGML_TRY(check_threads(threads - 1));
  std::unique_ptr<Lane> opened(new Lane());
  opened->backend_ = ggml_backend_dev_init(device, nullptr);
  const auto new_pool = cpu_function<decltype(&ggml_threadpool_new)>(device, "ggml_threadpool_new");
  const auto set_pool =
      cpu_function<decltype(&ggml_backend_cpu_set_threadpool)>(device, "ggml_backend_cpu_set_threadpool");
  const auto set_threads = cpu_function<ggml_backend_set_n_threads_t>(device, "ggml_backend_set_n_threads");
  const auto set_abort = cpu_function<ggml_backend_set_abort_callback_t>(device, "ggml_backend_set_abort_callback");
  if (opened->backend_ == nullptr || set_threads == nullptr || new_pool == nullptr || set_pool == nullptr ||
      set_abort == nullptr) {
    return Status::error("ggml's CPU backend does not open or is not the ggml that this runtime was built for");
  }
  ggml_threadpool_params params = ggml_threadpool_params_default(threads);
  params.poll = kPoll;
  opened->pool_ = new_pool(&params);
  if (opened->pool_ == nullptr) return Status::error(format("ggml cannot start a pool of %d threads", threads));
  set_threads(opened->backend_, threads);
  set_pool(opened->backend_, opened->pool_);
  set_abort(opened->backend_, abort, nullptr);
  *lane = std::move(opened);
  return {};
}

// To end ggml's pool waits for its threads: in a forked process it stays as it is.
Lane::~Lane() {
  if (backend_ == nullptr || !is_of_this_process()) return;
  ggml_backend_dev_t device = ggml_backend_get_device(backend_);
  ggml_backend_free(backend_);
  if (pool_ != nullptr) cpu_function<decltype(&ggml_threadpool_free)>(device, "ggml_threadpool_free")(pool_);
}

Lease::Lease(int wanted) : wanted_(wanted), threads_(Cores::all().take(wanted)), generation_(fork_generation()) {}

Lease::~Lease() { Cores::all().give_back(wanted_, threads_, generation_); }

Status Cpu::open(int threads, bool beside_device, std::shared_ptr<Cpu>* cpu) {
  if (threads <= 0) EXECUTORCH_GGML_TRY(default_threads(&threads));
  if (threads > GGML_MAX_N_THREADS) {
    return Status::error(format("%d threads: ggml takes at most %d", threads, GGML_MAX_N_THREADS));
  }
  std::shared_ptr<Cpu> opened(new Cpu());
  opened->threads_ = threads;
  if constexpr (kHasGgmlKernels) {
    EXECUTORCH_GGML_TRY(Lane::open(1, run_is_interrupted, &opened->serial_));
    if (beside_device) EXECUTORCH_GGML_TRY(Lane::open(threads, run_is_interrupted, &opened->scheduled_));
  } else {
    kernels::Isa most{};
    EXECUTORCH_GGML_TRY(read_allowed_isa(&most));
  }
  if (!beside_device) EXECUTORCH_GGML_TRY(start_helpers(threads - 1));
  *cpu = std::move(opened);
  return {};
}

Status Cpu::renew() {
  if (!kHasGgmlKernels) return {};
  if (!serial_->is_of_this_process()) EXECUTORCH_GGML_TRY(Lane::open(1, run_is_interrupted, &serial_));
  if (scheduled_ != nullptr && !scheduled_->is_of_this_process()) {
    EXECUTORCH_GGML_TRY(Lane::open(threads_, run_is_interrupted, &scheduled_));
  }
  return {};
}

}  // namespace executorch_ggml
