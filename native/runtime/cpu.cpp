#include "cpu.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <future>
#include <map>
#include <thread>
#include <utility>

#include "devices.h"
#include "interrupt.h"
#include "resource_limits.h"
#include "status.h"

namespace executorch_ggml {
namespace {

// How long idle threads spin before they sleep, on ggml's scale of 0 to 100: 1 is about a millisecond. Longer would
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
  Status status;
  try {
    for (std::thread& thread : threads) thread = std::thread([ended] { ended.wait(); });
  } catch (const std::exception& error) {
    status = Status::error(format("cannot start %d threads: %s; use fewer", count, error.what()));
  }
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

// Divides the cores among the runs in progress. Threads that wait for each other spin, so more of them than cores cost
// far more than they give.
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

Status Lane::open(int threads, std::unique_ptr<Lane>* lane) {
  static std::atomic<uint64_t> lanes{0};
  ggml_backend_dev_t device = nullptr;
  EXECUTORCH_GGML_TRY(find_cpu(&device));
  if (!can_allocate(kGgmlObject)) return Status::error(format("no memory for a pool of %d threads", threads));
  EXECUTORCH_GGML_TRY(check_threads(threads - 1));
  std::unique_ptr<Lane> opened(new Lane());
  opened->number_ = ++lanes;
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
  set_abort(opened->backend_, run_is_interrupted, nullptr);
  *lane = std::move(opened);
  return {};
}

// Ending a pool waits for its threads: in a forked process it stays as it is.
Lane::~Lane() {
  if (backend_ == nullptr || !has_threads()) return;
  ggml_backend_dev_t device = ggml_backend_get_device(backend_);
  ggml_backend_free(backend_);
  if (pool_ != nullptr) cpu_function<decltype(&ggml_threadpool_free)>(device, "ggml_threadpool_free")(pool_);
}

ggml_backend_graph_plan_t Lane::plan(const ggml_cgraph* graph, int threads) {
  ggml_backend_dev_t device = ggml_backend_get_device(backend_);
  cpu_function<ggml_backend_set_n_threads_t>(device, "ggml_backend_set_n_threads")(backend_, threads);
  return ggml_backend_graph_plan_create(backend_, const_cast<ggml_cgraph*>(graph));
}

// Lanes of one number of threads that no run uses.
class LanePool {
 public:
  static Status get(int threads, std::shared_ptr<LanePool>* pool) {
    static Mutex* mutex = new Mutex();
    static auto* pools = new std::map<int, std::weak_ptr<LanePool>>();
    std::lock_guard<Mutex> lock(*mutex);
    if ((*pool = (*pools)[threads].lock())) return {};
    auto opened = std::make_shared<LanePool>(threads);
    std::unique_ptr<Lane> lane;
    EXECUTORCH_GGML_TRY(Lane::open(threads, &lane));
    opened->put_back(std::move(lane));
    (*pools)[threads] = opened;
    *pool = std::move(opened);
    return {};
  }

  explicit LanePool(int threads) : threads_(threads) {}

  // The lane of a number if it is free, or the one that was used last, or a new one.
  Status take(uint64_t last, std::unique_ptr<Lane>* lane) {
    {
      std::lock_guard<Mutex> lock(mutex_);
      const auto lost = [](const auto& one) { return !one->has_threads(); };
      idle_.erase(std::remove_if(idle_.begin(), idle_.end(), lost), idle_.end());
      auto found = std::find_if(idle_.begin(), idle_.end(), [last](const auto& one) { return one->number() == last; });
      if (found == idle_.end() && !idle_.empty()) found = idle_.end() - 1;
      if (found != idle_.end()) {
        *lane = std::move(*found);
        idle_.erase(found);
        return {};
      }
    }
    return Lane::open(threads_, lane);
  }

  void put_back(std::unique_ptr<Lane> lane) {
    std::lock_guard<Mutex> lock(mutex_);
    idle_.push_back(std::move(lane));
  }

 private:
  const int threads_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Lane>> idle_;  // the one used last is the last
};

Lease::~Lease() {
  if (lane_ == nullptr) return;
  if (pooled_ != nullptr) pool_->put_back(std::move(pooled_));
  Cores::all().give_back(wanted_, threads_, generation_);
}

Status Cpu::open(int threads, bool shared, std::shared_ptr<Cpu>* cpu) {
  if (threads <= 0) EXECUTORCH_GGML_TRY(default_threads(&threads));
  if (threads > GGML_MAX_N_THREADS) {
    return Status::error(format("%d threads: ggml takes at most %d", threads, GGML_MAX_N_THREADS));
  }
  std::shared_ptr<Cpu> opened(new Cpu());
  opened->threads_ = threads;
  EXECUTORCH_GGML_TRY(Lane::open(1, &opened->serial_));
  if (!shared) {
    EXECUTORCH_GGML_TRY(Lane::open(threads, &opened->own_));
  } else if (threads > 1) {
    EXECUTORCH_GGML_TRY(LanePool::get(threads, &opened->pool_));
  }
  *cpu = std::move(opened);
  return {};
}

Status Cpu::renew() {
  if (!serial_->has_threads()) EXECUTORCH_GGML_TRY(Lane::open(1, &serial_));
  if (own_ != nullptr && !own_->has_threads()) EXECUTORCH_GGML_TRY(Lane::open(threads_, &own_));
  return {};
}

Status Cpu::lease(bool parallel, uint64_t last, Lease* lease) {
  lease->wanted_ = parallel ? threads_ : 1;
  lease->generation_ = fork_generation();
  lease->threads_ = Cores::all().take(lease->wanted_);
  lease->lane_ = serial_.get();  // from here on the lease gives back what it has
  if (lease->threads_ == 1) return {};
  EXECUTORCH_GGML_TRY(pool_->take(last, &lease->pooled_));
  lease->pool_ = pool_.get();
  lease->lane_ = lease->pooled_.get();
  return {};
}

}  // namespace executorch_ggml
