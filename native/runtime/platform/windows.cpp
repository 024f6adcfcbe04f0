// Windows.
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX

// clang-format off
#include <winsock2.h>
#include <ws2tcpip.h>
#include <windows.h>
#include <psapi.h>
// clang-format on

#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <system_error>

#include "platform/platform.h"
#include "status.h"

namespace executorch_ggml::platform {
namespace {

std::string message_of(DWORD error) { return std::system_category().message(static_cast<int>(error)); }

Status system_error(const char* what) {
  return Status::error(format("%s: %s", what, message_of(GetLastError()).c_str()));
}

HANDLE file_of(intptr_t handle) { return reinterpret_cast<HANDLE>(handle); }

// Paths are UTF-8 here, as on other systems.
std::wstring wide(const std::string& text) {
  const int size = MultiByteToWideChar(CP_UTF8, 0, text.data(), static_cast<int>(text.size()), nullptr, 0);
  std::wstring result(static_cast<size_t>(size), L'\0');
  MultiByteToWideChar(CP_UTF8, 0, text.data(), static_cast<int>(text.size()), result.data(), size);
  return result;
}

std::string narrow(const wchar_t* text) {
  const int size = WideCharToMultiByte(CP_UTF8, 0, text, -1, nullptr, 0, nullptr, nullptr);
  std::string result(static_cast<size_t>(std::max(size, 1)), '\0');
  WideCharToMultiByte(CP_UTF8, 0, text, -1, result.data(), size, nullptr, nullptr);
  result.pop_back();
  return result;
}

}  // namespace

// ----------------------------------------------------------------------------------------------------------- files

File::~File() {
  if (handle_ != -1) CloseHandle(file_of(handle_));
}

Status File::open(const std::string& path) {
  HANDLE file = CreateFileW(wide(path).c_str(), GENERIC_READ, FILE_SHARE_READ, nullptr, OPEN_EXISTING,
                            FILE_ATTRIBUTE_NORMAL, nullptr);
  if (file == INVALID_HANDLE_VALUE) return system_error("cannot open it");
  handle_ = reinterpret_cast<intptr_t>(file);
  LARGE_INTEGER size{};
  if (GetFileType(file) != FILE_TYPE_DISK || GetFileSizeEx(file, &size) == 0) return Status::error("not a file");
  size_ = static_cast<uint64_t>(size.QuadPart);
  return {};
}

Status File::read(uint64_t offset, uint64_t size, uint8_t* to) const {
  constexpr uint64_t kMost = 1u << 30;
  while (size > 0) {
    OVERLAPPED where{};
    where.Offset = static_cast<DWORD>(offset);
    where.OffsetHigh = static_cast<DWORD>(offset >> 32);
    DWORD count = 0;
    const BOOL done = ReadFile(file_of(handle_), to, static_cast<DWORD>(std::min(size, kMost)), &count, &where);
    if (done == 0 && GetLastError() != ERROR_HANDLE_EOF) return system_error("cannot read it");
    if (count == 0) return Status::error("it became shorter while it was read");
    to += count;
    offset += count;
    size -= count;
  }
  return {};
}

Status File::map(Mapping mapping, void** data) const {
  const bool writable = mapping == Mapping::CopyOnWrite;
  HANDLE section =
      CreateFileMappingW(file_of(handle_), nullptr, writable ? PAGE_WRITECOPY : PAGE_READONLY, 0, 0, nullptr);
  const std::string failure = format("cannot map its %llu bytes", static_cast<unsigned long long>(size_));
  if (section == nullptr) return system_error(failure.c_str());
  *data = MapViewOfFile(section, writable ? FILE_MAP_COPY : FILE_MAP_READ, 0, 0, 0);
  const Status status = *data != nullptr ? Status() : system_error(failure.c_str());
  CloseHandle(section);
  return status;
}

void unmap(void* data, uint64_t) { UnmapViewOfFile(data); }

// Unlocking pages that are not locked takes them out of the working set.
void discard(const void* data, size_t size) { VirtualUnlock(const_cast<void*>(data), size); }

// ------------------------------------------------------------------------------------------------------- libraries

void* open_library(const std::string& path) { return LoadLibraryW(wide(path).c_str()); }

void* find_symbol(void* library, const char* name) {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}

void close_library(void* library) { FreeLibrary(static_cast<HMODULE>(library)); }

namespace {

HMODULE module_of(const void* address) {
  constexpr DWORD kFlags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  HMODULE module = nullptr;
  return GetModuleHandleExW(kFlags, static_cast<LPCWSTR>(address), &module) != 0 ? module : nullptr;
}

std::string path_of(HMODULE module) {
  std::wstring path(32768, L'\0');
  if (GetModuleFileNameW(module, path.data(), static_cast<DWORD>(path.size())) == 0) return "";
  std::string result = narrow(path.c_str());
  std::replace(result.begin(), result.end(), '\\', '/');
  return result;
}

}  // namespace

std::string library_of_address(const void* address) {
  HMODULE module = module_of(address);
  return module == nullptr ? "" : path_of(module);
}

std::vector<std::string> loaded_libraries() {
  std::vector<HMODULE> modules(1024);
  const auto size = static_cast<DWORD>(modules.size() * sizeof(HMODULE));
  DWORD needed = 0;
  if (EnumProcessModules(GetCurrentProcess(), modules.data(), size, &needed) == 0) return {};
  modules.resize(std::min(modules.size(), needed / sizeof(HMODULE)));
  std::vector<std::string> paths;
  for (HMODULE module : modules) paths.push_back(path_of(module));
  return paths;
}

void* find_symbol_beside(const void* address, const char* name) {
  HMODULE module = module_of(address);
  return module == nullptr ? nullptr : find_symbol(module, name);
}

std::vector<std::string> plugins(const std::string& folder, const std::string& name) {
  std::vector<std::string> paths;
  WIN32_FIND_DATAW entry{};
  HANDLE search = FindFirstFileW(wide(folder + "/" + name + "*.dll").c_str(), &entry);
  if (search == INVALID_HANDLE_VALUE) return paths;
  do {
    paths.push_back(folder + "/" + narrow(entry.cFileName));
  } while (FindNextFileW(search, &entry) != 0);
  FindClose(search);
  std::sort(paths.begin(), paths.end());
  return paths;
}

// ---------------------------------------------------------------------------------------------------------- memory

size_t memory_limit() {
  MEMORYSTATUSEX status{};
  status.dwLength = sizeof(status);
  return GlobalMemoryStatusEx(&status) != 0 ? static_cast<size_t>(status.ullTotalPhys) : SIZE_MAX;
}

void* allocate_aligned(size_t alignment, size_t size) { return _aligned_malloc(size, alignment); }

void free_aligned(void* memory) { _aligned_free(memory); }

// --------------------------------------------------------------------------------------------- processes and threads

int64_t process_id() { return GetCurrentProcessId(); }

void at_fork(void (*)(), void (*)(), void (*)()) {}

std::chrono::nanoseconds waited_for_a_core() { return {}; }

int current_core() { return -1; }

void move_to_core(int) {}

std::chrono::nanoseconds coarse_time() { return std::chrono::milliseconds(GetTickCount64()); }

Status enable_tile_registers() { return Status::error("Windows is not asked for them"); }

// --------------------------------------------------------------------------------------------------------- signals

namespace {

std::mutex guarding;
void* handler = nullptr;
volatile DWORD guarded = 0;  // a thread; 0: none
volatile DWORD raised = 0;
CONTEXT way_out;

// Lets the guarded thread go on where run_guarded began; other threads' exceptions are for the next handler.
LONG CALLBACK on_exception(EXCEPTION_POINTERS* exception) {
  const DWORD code = exception->ExceptionRecord->ExceptionCode;
  const bool of_cpu = code == EXCEPTION_ILLEGAL_INSTRUCTION || code == EXCEPTION_ACCESS_VIOLATION ||
                      code == EXCEPTION_PRIV_INSTRUCTION || code == EXCEPTION_INT_DIVIDE_BY_ZERO;
  if (!of_cpu || guarded != GetCurrentThreadId()) return EXCEPTION_CONTINUE_SEARCH;
  raised = code;
  *exception->ContextRecord = way_out;
  return EXCEPTION_CONTINUE_EXECUTION;
}

}  // namespace

SignalGuard::SignalGuard() : only_one_(guarding) { handler = AddVectoredExceptionHandler(1, on_exception); }

SignalGuard::~SignalGuard() { RemoveVectoredExceptionHandler(handler); }

int SignalGuard::run_guarded(const std::function<void()>& work) {
  raised = 0;
  RtlCaptureContext(&way_out);
  if (raised == 0) {
    guarded = GetCurrentThreadId();
    work();
  }
  guarded = 0;
  return static_cast<int>(raised);
}

std::string signal_name(int number) { return format("exception 0x%08X", static_cast<unsigned>(number)); }

bool block_pipe_signal() { return true; }

void unblock_pipe_signal() {}

// --------------------------------------------------------------------------------------------------------- network

namespace {

SOCKET socket_of(intptr_t handle) { return static_cast<SOCKET>(handle); }

void start_network_once() {
  static const int started = [] {
    WSADATA data{};
    return WSAStartup(MAKEWORD(2, 2), &data);
  }();
  (void)started;
}

bool wait_for(intptr_t handle, short events, std::chrono::milliseconds patience) {
  WSAPOLLFD entry{socket_of(handle), events, 0};
  return WSAPoll(&entry, 1, static_cast<int>(patience.count())) == 1;
}

}  // namespace

Socket::~Socket() {
  if (handle_ != -1) closesocket(socket_of(handle_));
}

Status Socket::connect(const std::string& host, const std::string& port) {
  start_network_once();
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (failure != 0) return Status::error("host " + host + ": " + message_of(static_cast<DWORD>(failure)));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> address(found, &freeaddrinfo);
  handle_ = static_cast<intptr_t>(::socket(AF_INET, SOCK_STREAM, 0));
  u_long nonblocking = 1;
  ioctlsocket(socket_of(handle_), static_cast<long>(FIONBIO), &nonblocking);
  int error = 0;
  int size = sizeof(error);
  if (::connect(socket_of(handle_), address->ai_addr, static_cast<int>(address->ai_addrlen)) != 0 &&
      WSAGetLastError() != WSAEWOULDBLOCK) {
    error = WSAGetLastError();
  } else if (!wait_for(handle_, POLLOUT, patience_)) {
    error = WSAETIMEDOUT;
  } else {
    getsockopt(socket_of(handle_), SOL_SOCKET, SO_ERROR, reinterpret_cast<char*>(&error), &size);
  }
  return error == 0 ? Status() : Status::error(message_of(static_cast<DWORD>(error)));
}

bool Socket::write(const void* data, size_t size) const {
  return send(socket_of(handle_), static_cast<const char*>(data), static_cast<int>(size), 0) == static_cast<int>(size);
}

bool Socket::wait_for_data() const { return wait_for(handle_, POLLIN, patience_); }

size_t Socket::read(void* data, size_t size) const {
  size_t done = 0;
  while (done < size && wait_for_data()) {
    const int count = recv(socket_of(handle_), static_cast<char*>(data) + done, static_cast<int>(size - done), 0);
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

// ------------------------------------------------------------------------------------------------------- C library

float log_gamma(float x) { return std::lgamma(x); }

}  // namespace executorch_ggml::platform
