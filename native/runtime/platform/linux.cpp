// Linux and Android, beside posix.cpp.
#include <fcntl.h>
#include <link.h>
#include <math.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "platform/platform.h"
#include "status.h"

namespace executorch_ggml::platform {
namespace {

// The number in a control group's file; SIZE_MAX where there is no such file or it says "max".
size_t group_limit(const char* path) {
  std::FILE* file = std::fopen(path, "r");
  if (file == nullptr) return SIZE_MAX;
  unsigned long long bytes = 0;
  const bool number = std::fscanf(file, "%llu", &bytes) == 1;
  std::fclose(file);
  return number ? static_cast<size_t>(bytes) : SIZE_MAX;
}

size_t physical_memory() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
}

}  // namespace

size_t memory_limit() {
  return std::min({physical_memory(), group_limit("/sys/fs/cgroup/memory.max"),
                   group_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes")});
}

std::chrono::nanoseconds waited_for_a_core() {
  const int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  char text[64];
  const ssize_t size = read(file, text, sizeof(text) - 1);
  close(file);
  text[std::max<ssize_t>(size, 0)] = '\0';
  unsigned long long waited = 0;
  return std::chrono::nanoseconds(std::sscanf(text, "%*u %llu", &waited) == 1 ? waited : 0);
}

int current_core() { return sched_getcpu(); }

void move_to_core(int core) {
  cpu_set_t allowed;
  if (core < 0 || core >= CPU_SETSIZE || sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  if (!CPU_ISSET(static_cast<size_t>(core), &allowed)) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(core), &one);
  if (sched_setaffinity(0, sizeof(one), &one) == 0) sched_setaffinity(0, sizeof(allowed), &allowed);
}

std::chrono::nanoseconds coarse_time() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);  // a fifth of the time of the exact one
  return std::chrono::nanoseconds(int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec);
}

std::vector<std::string> loaded_libraries() {
  std::vector<std::string> paths;
  const auto add = [](dl_phdr_info* info, size_t, void* to) {
    const char* path = info->dlpi_name;  // empty for the program itself
    if (path != nullptr && *path != '\0') static_cast<std::vector<std::string>*>(to)->emplace_back(path);
    return 0;
  };
  dl_iterate_phdr(add, &paths);
  return paths;
}

Status enable_tile_registers() {
#if defined(SYS_arch_prctl)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0) return {};
  return Status::error(format("the system refuses it (%s)", std::strerror(errno)));
#else
  return Status::error("this processor has none");
#endif
}

float log_gamma(float x) {
  int sign = 0;
  return ::lgammaf_r(x, &sign);
}

}  // namespace executorch_ggml::platform
