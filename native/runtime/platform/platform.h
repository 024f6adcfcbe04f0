// What the operating system does for this runtime. Each system has a file of its own: linux.cpp (with Android) and
// macos.cpp, which share posix.cpp, and windows.cpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "result.h"

namespace executorch_ggml::platform {

// ----------------------------------------------------------------------------------------------------------- files

enum class Mapping {
  ReadOnly,
  CopyOnWrite,  // what is written stays in this process
};

// A regular file that is open for reading.
class File {
 public:
  File() = default;
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  Status open(const std::string& path);
  uint64_t size() const { return size_; }
  Status read(uint64_t offset, uint64_t size, uint8_t* to) const;

  // The whole file, until `unmap`; it may be closed before.
  Status map(Mapping mapping, void** data) const;

 private:
  intptr_t handle_ = -1;
  uint64_t size_ = 0;
};

void unmap(void* data, uint64_t size);

// Gives the memory of a mapping's bytes back; whoever reads them again has them read from the file again.
void discard(const void* data, size_t size);

// ------------------------------------------------------------------------------------------------------- libraries

// Null where it does not open or has no such symbol.
void* open_library(const std::string& path);
void* find_symbol(void* library, const char* name);
void close_library(void* library);

// The library or program that an address lies in, and a symbol of it.
std::string library_of_address(const void* address);
void* find_symbol_beside(const void* address, const char* name);

// The paths of the libraries that this process has loaded, as the system names them.
std::vector<std::string> loaded_libraries();

// The paths of the libraries of a folder that are built as plug-ins and whose names, without what the system puts
// before all of them ("lib"), begin with `name`; sorted.
std::vector<std::string> plugins(const std::string& folder, const std::string& name);

// ---------------------------------------------------------------------------------------------------------- memory

// The machine's memory, or the part of it that a container gets.
size_t memory_limit();

// `alignment` is a power of two. Null where there is no memory.
void* allocate_aligned(size_t alignment, size_t size);
void free_aligned(void* memory);

// --------------------------------------------------------------------------------------------- processes and threads

int64_t process_id();

// Calls these around each fork of this process; nothing where processes do not fork.
void at_fork(void (*prepare)(), void (*in_parent)(), void (*in_child)());

// How long the calling thread was runnable without a core so far; 0 where the system does not say. Allocates nothing.
std::chrono::nanoseconds waited_for_a_core();

// The core that the calling thread is on; -1 where the system does not say.
int current_core();

// Has the calling thread go on there, if it may run there; the system may move it again at any time.
void move_to_core(int core);

// A clock that never goes back, as cheap to read as there is; it may step by milliseconds.
std::chrono::nanoseconds coarse_time();

// Has the system keep AMX's tile registers for all threads of this process; or says why it does not.
Status enable_tile_registers();

// --------------------------------------------------------------------------------------------------------- signals

// Catches the CPU's signals on this thread, in run_guarded, while it lives. Other threads' signals are raised again,
// with the handlers that were there before.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  // The signal that ended `work`, or 0. What was allocated in work that ended so is lost.
  int run_guarded(const std::function<void()>& work);

 private:
  std::unique_lock<std::mutex> only_one_;
};

std::string signal_name(int number);

// Keeps a connection that the other side closed from ending the process, on this thread. Whether it was so before.
bool block_pipe_signal();
void unblock_pipe_signal();

// --------------------------------------------------------------------------------------------------------- network

// A TCP connection (IPv4) whose waits end after `patience`.
class Socket {
 public:
  explicit Socket(std::chrono::milliseconds patience) : patience_(patience) {}
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // The system's own reason in the message, no more.
  Status connect(const std::string& host, const std::string& port);
  bool write(const void* data, size_t size) const;
  bool wait_for_data() const;

  // As much as comes; less where the other side ends, or is silent for too long.
  size_t read(void* data, size_t size) const;

 private:
  intptr_t handle_ = -1;
  std::chrono::milliseconds patience_;
};

// ------------------------------------------------------------------------------------------------------- C library

// lgamma without its global variable, where the C library has it.
float log_gamma(float x);

}  // namespace executorch_ggml::platform
