#include "python_host.h"

#include <dlfcn.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <vector>

#include "platform/platform.h"

extern char** environ;

namespace executorch_ggml::devices {
namespace {

constexpr const char* kVariable = "EXECUTORCH_GGML_PYTHON";

// What is called of Python: names that every version of it exports.
struct Python {
  int (*is_initialized)() = nullptr;
  int (*ensure)() = nullptr;
  void (*release)(int) = nullptr;
  int (*run)(const char*, void*) = nullptr;
  void (*initialize)(int) = nullptr;
  void* (*save_thread)() = nullptr;
  void (*set_program)(const wchar_t*) = nullptr;
  wchar_t* (*decode)(const char*, size_t*) = nullptr;
  void (*interrupt)() = nullptr;

  bool find(void* module) {
    const auto get = [&](auto* function, const char* name) {
      *function = reinterpret_cast<std::decay_t<decltype(*function)>>(dlsym(module, name));
      return *function != nullptr;
    };
    return get(&is_initialized, "Py_IsInitialized") && get(&ensure, "PyGILState_Ensure") &&
           get(&release, "PyGILState_Release") && get(&run, "PyRun_SimpleStringFlags") &&
           get(&initialize, "Py_InitializeEx") && get(&save_thread, "PyEval_SaveThread") &&
           get(&set_program, "Py_SetProgramName") && get(&decode, "Py_DecodeLocale") &&
           get(&interrupt, "PyErr_SetInterrupt");
  }
};

Python python;
std::atomic<bool> found{false};

// A Python that is in the process but not among the symbols that all can see, as a plug-in's is.
void* loaded_python() {
  for (const std::string& name : platform::loaded_libraries()) {
    if (name.find("libpython3") == std::string::npos) continue;
    void* opened = dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (opened != nullptr && dlsym(opened, "Py_IsInitialized") != nullptr) return opened;
  }
  return nullptr;
}

bool find_running() {
  void* program = dlopen(nullptr, RTLD_NOW);
  if (python.find(RTLD_DEFAULT) || python.find(program)) return python.is_initialized() != 0;
  void* module = loaded_python();
  return module != nullptr && python.find(module) && python.is_initialized() != 0;
}

// What a program prints, read without a shell.
bool output_of(const std::vector<std::string>& command, std::string* output) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int failure = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  char part[512];
  for (ssize_t n = 0; failure == 0 && (n = read(ends[0], part, sizeof(part))) > 0;) output->append(part, n);
  close(ends[0]);
  int status = -1;
  if (failure == 0) waitpid(child, &status, 0);
  return failure == 0 && status == 0;
}

// EXECUTORCH_GGML_PYTHON names an interpreter, or an environment's folder.
std::string interpreter() {
  const char* given = std::getenv(kVariable);
  if (given == nullptr || *given == '\0') return "python3";
  struct stat info{};
  if (stat(given, &info) == 0 && S_ISDIR(info.st_mode)) return std::string(given) + "/bin/python";
  return given;
}

// An interpreter's program and the library that it is of.
constexpr const char* kAsk = R"(
import sys, sysconfig, os
names = [sysconfig.get_config_var(name) or '' for name in ('INSTSONAME', 'LDLIBRARY', 'PYTHONFRAMEWORKPREFIX')]
folders = [sysconfig.get_config_var(name) or '' for name in ('LIBDIR', 'LIBPL', 'PYTHONFRAMEWORKPREFIX')]
folders += [os.path.join(sys.base_prefix, 'lib')]
paths = [os.path.join(folder, name) for folder in folders for name in names[:2] if '.so' in name or '.dylib' in name or 'Python' in name]
print(sys.executable)
print(next((path for path in paths if os.path.exists(path)), ''))
)";

bool start(std::string* error) {
  const std::string program = interpreter();
  std::string output;
  if (!output_of({program, "-c", kAsk}, &output)) {
    *error = "no Python: " + program + " does not run; set " + kVariable + " to an interpreter or its environment";
    return false;
  }
  std::istringstream lines(output);
  std::string executable;
  std::string library;
  std::getline(lines, executable);
  std::getline(lines, library);
  if (library.empty()) {
    *error = "no Python: " + executable + " comes without a shared libpython; set " + kVariable + " to one that has it";
    return false;
  }
  // Its extension modules find it among the symbols that all can see.
  void* module = dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (module == nullptr || !python.find(module)) {
    const char* reason = module == nullptr ? dlerror() : nullptr;
    *error = "no Python: " + library + ": " + (reason ? reason : "it lacks a function of Python's");
    return false;
  }
  python.set_program(python.decode(executable.c_str(), nullptr));  // kept: Python does not copy it
  python.initialize(/*signal handlers=*/0);
  python.save_thread();
  return true;
}

}  // namespace

bool run_python(const std::string& code, std::string* error) {
  static std::mutex mutex;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!found && !find_running() && !start(error)) return false;
    found = true;
  }
  if (!python_is_alive()) {
    *error = "Python has ended";
    return false;
  }
  const int state = python.ensure();
  const int failure = python.run(code.c_str(), nullptr);
  python.release(state);
  if (failure != 0) *error = "Python cannot run the devices' code";
  return failure == 0;
}

bool python_is_alive() { return found && python.is_initialized() != 0; }

void interrupt_python() {
  if (python_is_alive()) python.interrupt();
}

}  // namespace executorch_ggml::devices
