// libggml-pydevice: devices of ggml's that are written in Python (executorch_ggml.devices).
//
// What ggml calls is ggml_backend_init. It finds out which ggml that is, finds Python, which names its devices, and
// registers them. A process may have several ggmls: each has a registration and devices of its own, which stay as long
// as the process, since ggml has no way to tell that it is done with them.
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "custom_nodes.h"
#include "device.h"
#include "python_host.h"

namespace executorch_ggml::devices {
namespace {

// Run in a function, so that nothing is left in the program's own names.
constexpr const char* kAttach = R"(
def _executorch_ggml_attach(services, log, host):
    import sys
    try:
        sys._executorch_ggml_plugin = True
        try:
            from executorch_ggml.devices import bridge
        finally:
            del sys._executorch_ggml_plugin
        bridge.attach(services)
    except BaseException:
        import ctypes, traceback
        text = f"pydevice: {sys.executable} cannot bring its devices:\n{traceback.format_exc()}"
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)(log)(host, 4, text.encode())
_executorch_ggml_attach(%llu, %llu, %llu)
del _executorch_ggml_attach
)";

class Registration {
 public:
  explicit Registration(const GgmlHost& host);
  void attach();
  ggml_backend_reg_t ggml() { return reinterpret_cast<ggml_backend_reg_t>(&table_); }
  bool is_of(const GgmlHost& host) const { return host.buffer_init == host_.buffer_init; }

 private:
  static Registration& of(void* host) { return *static_cast<Registration*>(host); }
  static Registration& of(ggml_backend_reg_t reg) { return of(reinterpret_cast<abi::Reg*>(reg)->context); }

  GgmlHost host_;
  Callbacks callbacks_{};
  Services services_{};
  abi::Reg table_{};
  std::vector<std::unique_ptr<Device>> devices_;
  bool attached_ = false;
};

Registration::Registration(const GgmlHost& host) : host_(host) {
  table_.api_version = host_.api_version();
  table_.get_name = [](ggml_backend_reg_t) { return "pydevice"; };
  table_.get_device_count = [](ggml_backend_reg_t self) { return of(self).devices_.size(); };
  table_.get_device = [](ggml_backend_reg_t self, size_t index) { return of(self).devices_[index]->ggml(); };
  table_.get_proc_address = [](ggml_backend_reg_t, const char* name) {
    return std::strcmp(name, kCustomNodes) == 0 ? reinterpret_cast<void*>(&custom_nodes) : nullptr;
  };
  table_.context = this;
  services_.version = kCallbacksVersion;
  services_.host = this;
  services_.callbacks = &callbacks_;
  services_.log = [](void* self, int level, const char* text) {
    of(self).host_.log(static_cast<ggml_log_level>(level), "%s", text);
  };
  services_.add_device = [](void* self, const char* name, const char* description) {
    Registration& made = of(self);
    const auto number = static_cast<int64_t>(made.devices_.size());
    made.devices_.push_back(
        std::make_unique<Device>(made.host_, made.callbacks_, number, name, description, made.ggml()));
    // ggml has counted those that were there at first.
    if (made.attached_) made.host_.backend_device_register(made.devices_.back()->ggml());
  };
  services_.op_name = reinterpret_cast<decltype(services_.op_name)>(host_.op_name);
  services_.unary_name = reinterpret_cast<decltype(services_.unary_name)>(host_.unary_op_name);
  services_.glu_name = reinterpret_cast<decltype(services_.glu_name)>(host_.glu_op_name);
  services_.program = custom_program;
  services_.exprs = custom_exprs;
}

void Registration::attach() {
  char code[2048];
  const auto number = [](const void* address) {
    return static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(address));
  };
  std::snprintf(code, sizeof(code), kAttach, number(&services_), number(reinterpret_cast<void*>(services_.log)),
                number(this));
  std::string error;
  if (!run_python(code, &error)) host_.log(GGML_LOG_LEVEL_ERROR, "pydevice: %s", error.c_str());
  attached_ = true;
}

ggml_backend_reg_t open_registration(const void* caller) {
  static std::mutex mutex;
  static std::vector<Registration*> made;
  GgmlHost host;
  std::string error;
  if (!host.open(caller, &error)) {
    host.log(GGML_LOG_LEVEL_ERROR, "pydevice: %s", error.c_str());
    return nullptr;
  }
  Registration* registration = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (Registration* known : made) {
      if (known->is_of(host)) return known->ggml();
    }
    registration = new Registration(host);
    made.push_back(registration);
  }
  registration->attach();
  return registration->ggml();
}

}  // namespace
}  // namespace executorch_ggml::devices

extern "C" __attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init() {
  return executorch_ggml::devices::open_registration(__builtin_return_address(0));
}
