// Linux, Android and macOS.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "platform/platform.h"
#include "status.h"

namespace executorch_ggml::platform {
namespace {

Status system_error(const char* what) { return Status::error(format("%s: %s", what, std::strerror(errno))); }

int descriptor(intptr_t handle) { return static_cast<int>(handle); }

}  // namespace

// ----------------------------------------------------------------------------------------------------------- files

File::~File() {
  if (handle_ >= 0) close(descriptor(handle_));
}

Status File::open(const std::string& path) {
  handle_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe would make it wait
  if (handle_ < 0) return system_error("cannot open it");
  struct stat info{};
  if (fstat(descriptor(handle_), &info) != 0 || !S_ISREG(info.st_mode)) return Status::error("not a file");
  size_ = static_cast<uint64_t>(info.st_size);
  return {};
}

Status File::read(uint64_t offset, uint64_t size, uint8_t* to) const {
  while (size > 0) {
    const ssize_t count = pread(descriptor(handle_), to, size, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("cannot read it");
    if (count == 0) return Status::error("it became shorter while it was read");
    to += count;
    offset += static_cast<uint64_t>(count);
    size -= static_cast<uint64_t>(count);
  }
  return {};
}

Status File::map(Mapping mapping, void** data) const {
  const bool writable = mapping == Mapping::CopyOnWrite;
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  const int flags = writable ? MAP_PRIVATE | MAP_NORESERVE : MAP_SHARED;
  void* mapped = mmap(nullptr, size_, protection, flags, descriptor(handle_), 0);
  if (mapped == MAP_FAILED) {
    const char* reason = std::strerror(errno);
    return Status::error(format("cannot map its %llu bytes: %s", static_cast<unsigned long long>(size_), reason));
  }
  *data = mapped;
  return {};
}

void unmap(void* data, uint64_t size) { munmap(data, size); }

void discard(const void* data, size_t size) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + size) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

// ------------------------------------------------------------------------------------------------------- libraries

void* open_library(const std::string& path) { return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); }

void* find_symbol(void* library, const char* name) { return dlsym(library, name); }

void close_library(void* library) { dlclose(library); }

std::string library_of_address(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

void* find_symbol_beside(const void* address, const char* name) {
  void* library = dlopen(library_of_address(address).c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  void* symbol = dlsym(library, name);
  dlclose(library);  // it stays loaded: the address is used
  return symbol;
}

std::vector<std::string> plugins(const std::string& folder, const std::string& name) {
  const std::string prefix = "lib" + name;
  const std::string suffix = ".so";  // ggml's on macOS too
  std::vector<std::string> paths;
  const std::unique_ptr<DIR, int (*)(DIR*)> opened(opendir(folder.c_str()), &closedir);
  if (opened == nullptr) return paths;
  while (const dirent* entry = readdir(opened.get())) {
    const std::string file = entry->d_name;
    if (file.size() < prefix.size() + suffix.size() || file.compare(0, prefix.size(), prefix) != 0) continue;
    if (file.compare(file.size() - suffix.size(), suffix.size(), suffix) == 0) paths.push_back(folder + "/" + file);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// ---------------------------------------------------------------------------------------------------------- memory

void* allocate_aligned(size_t alignment, size_t size) {
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, size) == 0 ? memory : nullptr;
}

void free_aligned(void* memory) { std::free(memory); }

// --------------------------------------------------------------------------------------------- processes and threads

int64_t process_id() { return getpid(); }

void at_fork(void (*prepare)(), void (*in_parent)(), void (*in_child)()) {
  pthread_atfork(prepare, in_parent, in_child);
}

// --------------------------------------------------------------------------------------------------------- signals

namespace {

struct Signal {
  int number;
  const char* name;
  struct sigaction previous;
};
Signal signals[] = {{SIGILL, "SIGILL", {}}, {SIGSEGV, "SIGSEGV", {}}, {SIGBUS, "SIGBUS", {}}, {SIGFPE, "SIGFPE", {}}};
std::mutex guarding;
pthread_t guarded;
sigjmp_buf* volatile way_out = nullptr;

void restore_signals() {
  for (const Signal& signal : signals) sigaction(signal.number, &signal.previous, nullptr);
}

// Another thread's signal is raised again, with the handler that was there before.
void on_signal(int signal) {
  if (way_out != nullptr && pthread_equal(pthread_self(), guarded) != 0) siglongjmp(*way_out, signal);
  restore_signals();
}

}  // namespace

SignalGuard::SignalGuard() : only_one_(guarding) {
  guarded = pthread_self();
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_NODEFER;
  for (Signal& signal : signals) sigaction(signal.number, &action, &signal.previous);
}

SignalGuard::~SignalGuard() { restore_signals(); }

int SignalGuard::run_guarded(const std::function<void()>& work) {
  sigjmp_buf here;
  const int signal = sigsetjmp(here, 1);
  if (signal == 0) {
    way_out = &here;
    work();
  }
  way_out = nullptr;
  return signal;
}

std::string signal_name(int number) {
  for (const Signal& signal : signals) {
    if (signal.number == number) return signal.name;
  }
  return "a signal";
}

bool block_pipe_signal() {
  sigset_t sigpipe;
  sigset_t before;
  sigemptyset(&sigpipe);
  sigaddset(&sigpipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &sigpipe, &before);
  return sigismember(&before, SIGPIPE) == 1;
}

void unblock_pipe_signal() {
  sigset_t sigpipe;
  sigset_t pending;
  sigemptyset(&sigpipe);
  sigaddset(&sigpipe, SIGPIPE);
  int signal = 0;
  if (sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1) sigwait(&sigpipe, &signal);
  pthread_sigmask(SIG_UNBLOCK, &sigpipe, nullptr);
}

// --------------------------------------------------------------------------------------------------------- network

namespace {

bool wait_for(intptr_t handle, short events, std::chrono::milliseconds patience) {
  pollfd entry{descriptor(handle), events, 0};
  return poll(&entry, 1, static_cast<int>(patience.count())) == 1;
}

}  // namespace

Socket::~Socket() {
  if (handle_ >= 0) close(descriptor(handle_));
}

Status Socket::connect(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (failure != 0) return Status::error("host " + host + ": " + gai_strerror(failure));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> address(found, &freeaddrinfo);
  handle_ = ::socket(AF_INET, SOCK_STREAM, 0);
  fcntl(descriptor(handle_), F_SETFD, FD_CLOEXEC);
  fcntl(descriptor(handle_), F_SETFL, O_NONBLOCK);
  int error = 0;
  socklen_t size = sizeof(error);
  if (::connect(descriptor(handle_), address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS) {
    error = errno;
  } else if (!wait_for(handle_, POLLOUT, patience_)) {
    error = ETIMEDOUT;
  } else {
    getsockopt(descriptor(handle_), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  return error == 0 ? Status() : Status::error(std::strerror(error));
}

bool Socket::write(const void* data, size_t size) const {
  const bool blocked = block_pipe_signal();
  const bool sent = send(descriptor(handle_), data, size, 0) == static_cast<ssize_t>(size);
  if (!blocked) unblock_pipe_signal();
  return sent;
}

bool Socket::wait_for_data() const { return wait_for(handle_, POLLIN, patience_); }

size_t Socket::read(void* data, size_t size) const {
  size_t done = 0;
  while (done < size && wait_for_data()) {
    const ssize_t count = recv(descriptor(handle_), static_cast<char*>(data) + done, size - done, 0);
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

}  // namespace executorch_ggml::platform
