#include "ggml_host.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <vector>

#include "platform/platform.h"

namespace executorch_ggml::devices {
namespace {

void* open_again(const char* path) { return dlopen(path, RTLD_NOW | RTLD_NOLOAD); }

// A module from which ggml's functions can be reached: the one that calls us, or what it links, before any other, since
// a process may have several ggmls. Modules that are loaded stay loaded: their handles are kept.
void* find_module(const void* caller) {
  constexpr const char* kSymbol = "ggml_backend_buffer_init";
  Dl_info info{};
  if (dladdr(caller, &info) != 0 && info.dli_fname != nullptr) {
    void* module = open_again(info.dli_fname);
    if (module != nullptr && dlsym(module, kSymbol) != nullptr) return module;
  }
  void* program = dlopen(nullptr, RTLD_NOW);
  if (dlsym(program, kSymbol) != nullptr) return program;
  for (const std::string& name : platform::loaded_libraries()) {
    if (name.find("ggml") == std::string::npos) continue;
    void* module = open_again(name.c_str());
    if (module != nullptr && dlsym(module, kSymbol) != nullptr && dlsym(module, "ggml_backend_reg_count") != nullptr)
      return module;
  }
  return nullptr;
}

}  // namespace

bool GgmlHost::open(const void* caller, std::string* error) {
  return find_functions(caller, error) && find_version(error) && find_ops(error);
}

bool GgmlHost::find_functions(const void* caller, std::string* error) {
  module_ = find_module(caller);
  if (module_ == nullptr) {
    *error = "no ggml in this process exports its functions: link ggml as a shared library";
    return false;
  }
  const char* missing = nullptr;
#define EXECUTORCH_GGML_FIND(name)                                                    \
  this->name = reinterpret_cast<decltype(this->name)>(dlsym(module_, "ggml_" #name)); \
  if (this->name == nullptr) missing = "ggml_" #name;
  EXECUTORCH_GGML_HOST_FUNCTIONS(EXECUTORCH_GGML_FIND)
#undef EXECUTORCH_GGML_FIND
  buffer_init = reinterpret_cast<abi::BufferInit>(dlsym(module_, "ggml_backend_buffer_init"));
  marks_ = dlsym(module_, "ggml_build_forward_select") != nullptr;
  if (missing == nullptr) return true;
  *error = std::string("this ggml has no function ") + missing + "; expected ggml 0.20 or newer";
  return false;
}

// ggml itself does not tell its version of the tables, but each backend that it has registered does. Where it has none
// yet, its own version decides; what it would not take it refuses by our registration's number.
bool GgmlHost::find_version(std::string* error) {
  int minor = 0;
  if (backend_reg_count() > 0) {
    api_version_ = reinterpret_cast<const abi::Reg*>(backend_reg_get(0))->api_version;
  } else if (std::sscanf(version(), "0.%d.", &minor) == 1 && minor >= 20 && minor <= 25) {
    api_version_ = 2;
  }
  const bool has_2d = dlsym(module_, "ggml_backend_tensor_set_2d") != nullptr;
  if ((api_version_ == 2 || api_version_ == 3) && has_2d) return true;
  *error = std::string("ggml ") + version() + " has version " +
           (api_version_ == 0 ? "unknown" : std::to_string(api_version_)) + (has_2d ? "" : " (without 2d copies)") +
           " of the device interface; this library knows 2 and 3";
  if (api_version_ == 0) *error += ". Load ggml's CPU backend first: its registration tells the version";
  return false;
}

bool GgmlHost::find_ops(std::string* error) {
  constexpr int kMostOps = 100;  // the last one that is looked for comes before
  static const char* const kShows[] = {"RESHAPE", "VIEW", "PERMUTE", "TRANSPOSE"};
  int found = 0;
  for (int op = 0; op < kMostOps && found < 5; ++op) {
    const std::string name = op_name(static_cast<ggml_op>(op));
    for (int i = 0; i < 4; ++i) {
      if (name == kShows[i] && ++found) shows_[i] = op;
    }
    if (name == "CUSTOM" && ++found) custom_ = op;
  }
  if (found < 5) *error = std::string("ggml ") + version() + " has no op RESHAPE, VIEW, PERMUTE, TRANSPOSE or CUSTOM";
  return found == 5;
}

bool GgmlHost::only_shows(const ggml_tensor* tensor) const {
  const auto op = static_cast<int>(tensor->op);
  return op == GGML_OP_NONE || op == shows_[0] || op == shows_[1] || op == shows_[2] || op == shows_[3];
}

void GgmlHost::log(ggml_log_level level, const char* format, ...) const {
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  const int size = std::vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  std::string text(static_cast<size_t>(std::max(size, 0)) + 1, '\n');
  std::vsnprintf(text.data(), text.size(), format, again);
  va_end(again);
  text.back() = '\n';
  ggml_log_callback callback = nullptr;
  void* data = nullptr;
  if (log_get != nullptr) log_get(&callback, &data);
  if (callback != nullptr) {
    callback(level, text.c_str(), data);
  } else {
    std::fputs(text.c_str(), stderr);
  }
}

}  // namespace executorch_ggml::devices
