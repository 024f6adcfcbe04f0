#include "thread_pool.h"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "fork.h"
#include "platform/platform.h"
#include "platform/relax.h"
#include "status.h"

namespace executorch_ggml {

namespace {

using Clock = std::chrono::steady_clock;

// How long a thread that waits looks for a change before it sleeps. A graph's next node is there within microseconds,
// and to wake a thread takes tens of them.
constexpr std::chrono::microseconds kSpin{300};

// Where other processes want the cores, a thread that spins uses up the time that the system gives it, and loses its
// core in the middle of a piece later: there it sleeps sooner. A caller that spends so much of a window runnable
// without a core says that the cores are contended, and then they are taken to be for a while.
constexpr std::chrono::microseconds kContendedSpin{10};
constexpr std::chrono::milliseconds kWindow{40};
constexpr int kWaitedPart = 8;
constexpr std::chrono::milliseconds kContended{100};

constexpr int kJobs = 64;  // crews at a time; a bit each

// Whether other processes want the cores that this one's threads run on.
class Contention {
 public:
  bool is_now(Clock::time_point now) const {
    return now.time_since_epoch().count() < until_.load(std::memory_order_relaxed);
  }

  // Called by callers, often: it asks the system once a window. True where that one ended and they were contended.
  bool watch(Clock::time_point now) {
    static thread_local Window window{now, platform::waited_for_a_core()};
    const Clock::duration elapsed = now - window.begin;
    if (elapsed < kWindow) return false;
    const std::chrono::nanoseconds waited = platform::waited_for_a_core();
    const bool contended = (waited - window.waited) * kWaitedPart >= elapsed;
    if (contended) until_.store((now + kContended).time_since_epoch().count(), std::memory_order_relaxed);
    window = {now, waited};
    return contended;
  }

 private:
  struct Window {
    Clock::time_point begin;
    std::chrono::nanoseconds waited;
  };
  std::atomic<int64_t> until_{0};  // on the clock
};

Contention contention;

// Whether it became ready before it was time to sleep.
template <class Ready>
bool spin(const Ready& ready) {
  const Clock::time_point begin = Clock::now();
  const Clock::time_point end = begin + (contention.is_now(begin) ? kContendedSpin : kSpin);
  do {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
      platform::relax();
    }
  } while (Clock::now() < end);
  return ready();
}

}  // namespace

// The pieces of a crew, one set after the other. It stays where it is, so that a thread may look at it at any time.
struct alignas(64) Job {
  // Which set of pieces it is, how many they are and how many were taken, as one number: who takes one from a set that
  // is over takes none of the next.
  std::atomic<uint64_t> state{0};
  std::atomic<int> done{0};
  std::atomic<bool> caller_sleeps{false};
  std::atomic<int> helper_core{kNoCore};  // where its helper should migrate to
  Pieces pieces;
  std::mutex mutex;
  std::condition_variable all_done;

  static constexpr int kNoCore = -1;  // as `current_core` where the system does not say
  static constexpr uint64_t kCount = uint64_t{1} << 16;
  static constexpr uint64_t kSet = uint64_t{1} << 32;
  static int taken(uint64_t state) { return static_cast<int>(state % kCount); }
  static int count(uint64_t state) { return static_cast<int>(state / kCount % kCount); }

  void publish(const Pieces& next) {
    pieces = next;
    done.store(0);
    const uint64_t set = state.load() / kSet + 1;
    state.store(set * kSet + static_cast<uint64_t>(next.count) * kCount);
  }

  // Two threads that each share a core with another process stall one another: the other waits while either is
  // preempted in the middle of a piece. On one core they alternate, and the system's load balancing moves the other
  // processes to the other core: none gets more or less CPU time than before.
  void call_helper_here() { helper_core.store(platform::current_core(), std::memory_order_relaxed); }

  void migrate_to_caller() {
    if (helper_core.load(std::memory_order_relaxed) == kNoCore) return;
    const int core = helper_core.exchange(kNoCore);
    if (core != kNoCore && core != platform::current_core()) platform::move_to_core(core);
  }

  // The pieces that nobody has taken, until there are none.
  void work() {
    uint64_t seen = state.load();
    while (taken(seen) < count(seen)) {
      if (!state.compare_exchange_weak(seen, seen + 1)) continue;
      pieces.run(pieces.context, taken(seen), count(seen));
      if (done.fetch_add(1) + 1 == count(seen) && caller_sleeps.load()) {
        {
          std::lock_guard<std::mutex> lock(mutex);
        }
        all_done.notify_one();
      }
      seen = state.load();
    }
  }

  void wait() {
    const auto is_done = [this] { return done.load() == count(state.load()); };
    if (is_done() || spin(is_done)) return;
    caller_sleeps.store(true);
    std::unique_lock<std::mutex> lock(mutex);
    all_done.wait(lock, is_done);
    caller_sleeps.store(false);
  }
};

namespace {

class ThreadPool final : private ForkListener {
 public:
  // Runs may outlive the library's statics: those end the threads and leave the rest.
  static ThreadPool& instance() {
    static ThreadPool* pool = new ThreadPool();
    static const Ending ending{pool};
    return *pool;
  }

  Status start(int count) {
    std::lock_guard<std::mutex> lock(parts_->mutex);
    const auto add = [&] {
      while (!parts_->ends.load() && static_cast<int>(parts_->workers.size()) < count) {
        parts_->workers.reserve(parts_->workers.size() + 1);
        auto worker = std::make_unique<Worker>();
        worker->thread = std::thread([parts = parts_, self = worker.get()] { parts->serve(self); });
        parts_->workers.push_back(std::move(worker));
      }
      return Status();
    };
    return call_guarded(add, [count](const char* error) {
      return Status::error(format("cannot start %d threads: %s; use fewer", count, error));
    });
  }

  // Null where there are as many crews already as there can be.
  Job* take_job(int helpers) {
    start(parts_->wanted.fetch_add(helpers) + helpers);  // what does not start does not help
    uint64_t crews = parts_->crews.load();
    while (~crews != 0) {
      const int free = __builtin_ctzll(~crews);
      if (!parts_->crews.compare_exchange_weak(crews, crews | uint64_t{1} << free)) continue;
      parts_->jobs[free].helper_core.store(Job::kNoCore);
      return &parts_->jobs[free];
    }
    return nullptr;
  }

  void give_back(const Job* job, int helpers) {
    parts_->wanted.fetch_sub(helpers);
    if (job != nullptr) parts_->crews.fetch_and(~(uint64_t{1} << (job - parts_->jobs.data())));
  }

  void run(const Pieces& pieces, Job* job, int helpers) {
    if (contention.watch(Clock::now()) && helpers == 1) job->call_helper_here();
    job->publish(pieces);
    parts_->announce(pieces.count - 1);
    job->work();
    job->wait();
  }

 private:
  struct Worker {
    std::thread thread;
    std::condition_variable wake;
    bool sleeps = false;
    Worker* next_sleeper = nullptr;
  };

  struct Parts {
    std::array<Job, kJobs> jobs;
    std::atomic<uint64_t> crews{0};  // whose jobs are taken
    std::atomic<uint64_t> epoch{0};  // counts the sets of pieces
    std::atomic<int> looking{0};     // threads that look for work, or were woken to
    std::atomic<int> wanted{0};      // helpers, by all crews
    std::mutex mutex;
    Worker* sleepers = nullptr;  // a stack: the last to sleep wakes first, its core's caches have the caller's data
    std::atomic<bool> ends{false};
    std::vector<std::unique_ptr<Worker>> workers;

    // Threads that are awake already look for themselves: of the others as many are woken as are still wanted.
    void announce(int helpers) {
      epoch.fetch_add(1);
      for (helpers -= looking.load(); helpers > 0; --helpers) {
        Worker* last = nullptr;
        {
          std::lock_guard<std::mutex> lock(mutex);
          if (sleepers == nullptr) return;
          last = sleepers;
          sleepers = last->next_sleeper;
          last->sleeps = false;
          looking.fetch_add(1);
        }
        last->wake.notify_one();
      }
    }

    void work() {
      for (uint64_t left = crews.load(); left != 0; left &= left - 1) {
        Job& job = jobs[__builtin_ctzll(left)];
        job.migrate_to_caller();
        job.work();
      }
    }

    void serve(Worker* self) {
      looking.fetch_add(1);
      while (!ends.load()) {  // also where a caller goes on, and there is no time to sleep
        const uint64_t seen = epoch.load();
        const auto is_news = [this, seen] { return epoch.load() != seen; };
        looking.fetch_sub(1);
        work();
        looking.fetch_add(1);
        if (spin(is_news)) continue;
        std::unique_lock<std::mutex> lock(mutex);
        looking.fetch_sub(1);
        if (is_news()) {  // whose caller may have counted on this thread
          looking.fetch_add(1);
          continue;
        }
        self->sleeps = true;
        self->next_sleeper = sleepers;
        sleepers = self;
        self->wake.wait(lock, [this, self] { return ends.load() || !self->sleeps; });
      }
    }
  };

  struct Ending {
    ThreadPool* pool;
    ~Ending() { pool->end(); }
  };

  // Waits for the pieces that threads have begun. Callers do without them from then on.
  void end() {
    {
      std::lock_guard<std::mutex> lock(parts_->mutex);
      parts_->ends.store(true);
    }
    for (const std::unique_ptr<Worker>& worker : parts_->workers) worker->wake.notify_one();
    for (const std::unique_ptr<Worker>& worker : parts_->workers) worker->thread.join();
  }

  // The threads are the parent's, and what they were changing may be in any condition: it is not ended but made anew.
  void after_fork() noexcept override { new (parts_) Parts(); }

  Parts* const parts_ = new Parts();
};

thread_local const Crew* current = nullptr;

void run_alone(const Pieces& pieces) {
  for (int piece = 0; piece < pieces.count; ++piece) pieces.run(pieces.context, piece, pieces.count);
}

}  // namespace

bool cores_are_contended() { return contention.is_now(Clock::now()); }

Status start_helpers(int count) { return ThreadPool::instance().start(count); }

Crew::Crew(int helpers) : outer_(current), helpers_(helpers), generation_(fork_generation()) {
  if (helpers > 0) job_ = ThreadPool::instance().take_job(helpers);
  current = this;
}

Crew::~Crew() {
  current = outer_;
  if (helpers_ > 0 && generation_ == fork_generation()) ThreadPool::instance().give_back(job_, helpers_);
}

int Crew::threads() {
  const bool helps = current != nullptr && current->job_ != nullptr && current->generation_ == fork_generation();
  return helps ? current->helpers_ + 1 : 1;
}

void run_pieces(const Pieces& pieces) {
  if (pieces.count <= 1 || Crew::threads() == 1) return run_alone(pieces);
  const Crew* crew = current;
  current = nullptr;  // its job is taken until these are done
  ThreadPool::instance().run(pieces, crew->job_, crew->helpers_);
  current = crew;
}

}  // namespace executorch_ggml
