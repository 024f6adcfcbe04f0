// Runs a .pte program on ExecuTorch's C++ runtime with the ggml backend, and measures it. See README.md.

#include <executorch/runtime/platform/runtime.h>
#include <executorch_ggml.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "allocation_counter.h"
#include "loaded_method.h"
#include "options.h"
#include "tensors.h"

using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::Method;

namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct CallTime {
  double total = 0;    // with handing over the inputs
  double execute = 0;  // Method::execute() alone
};

// One call. The inputs are handed over each time: their place in the plan may have been used for something else.
bool call(Method& method, const std::vector<EValue>& inputs, CallTime* time) {
  const auto start = Clock::now();
  Error error = method.set_inputs({inputs.data(), inputs.size()});
  const auto ready = Clock::now();
  if (error == Error::Ok) {
    error = method.execute();
  }
  const auto end = Clock::now();
  *time = {microseconds(end - start), microseconds(end - ready)};
  if (error != Error::Ok) {
    std::fprintf(stderr, "run_pte: the call failed: %s %s\n", executorch::runtime::to_string(error),
                 executorch_ggml_last_error());
  }
  return error == Error::Ok;
}

// Memory that is this process's own, as opposed to pages of mapped files. Empty where the system does not say.
std::string own_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string name;
    double kilobytes = 0;
    if (words >> name >> kilobytes && name == "RssAnon:") {
      char text[32];
      std::snprintf(text, sizeof(text), "%.1f MB", kilobytes / 1024);
      return text;
    }
  }
  return "";
}

void print_program(const Options& options, LoadedMethod& loaded, double load_time) {
  std::map<std::string, int> delegates;
  for (size_t i = 0; i < loaded.meta().num_backends(); ++i) {
    const auto name = loaded.meta().get_backend_name(i);
    ++delegates[name.ok() ? name.get() : "?"];
  }
  std::printf("%s: method %s, delegates:%s", options.program.c_str(), options.method.c_str(),
              delegates.empty() ? " none" : "");
  for (const auto& [name, count] : delegates) {
    std::printf(" %s (%d)", name.c_str(), count);
  }
  std::printf("\nload: %.2f ms\n", load_time / 1000);
}

bool measure(Method& method, const std::vector<EValue>& inputs, const Options& options) {
  CallTime time;
  for (int i = 0; i < options.warmup; ++i) {
    if (!call(method, inputs, &time)) {
      return false;
    }
  }
  if (can_count_allocations()) {
    start_counting_allocations();
    const bool ok = call(method, inputs, &time);
    const Allocations made = stop_counting_allocations();
    if (!ok) {
      return false;
    }
    std::printf("allocations per warm call: %lld (%lld bytes)\n", static_cast<long long>(made.count),
                static_cast<long long>(made.bytes));
  } else {
    std::printf("allocations per warm call: cannot be counted on this system\n");
  }
  std::vector<double> total;
  std::vector<double> execute;
  total.reserve(static_cast<size_t>(options.iterations));
  execute.reserve(static_cast<size_t>(options.iterations));
  for (int i = 0; i < options.iterations; ++i) {
    if (!call(method, inputs, &time)) {
      return false;
    }
    total.push_back(time.total);
    execute.push_back(time.execute);
  }
  std::printf("median of %d calls: %.2f us (execute alone %.2f us, fastest %.2f us)\n", options.iterations,
              median(total), median(execute), *std::min_element(execute.begin(), execute.end()));
  return true;
}

bool check(Method& method, const Options& options) {
  if (options.expected.size() > method.outputs_size()) {
    std::fprintf(stderr, "run_pte: the method has %zu outputs, more are expected\n", method.outputs_size());
    return false;
  }
  bool right = true;
  for (size_t i = 0; i < options.expected.size(); ++i) {
    right = matches(method.get_output(i), options.expected[i], options.tolerance) && right;
  }
  if (!right) {
    std::printf("the outputs are not as expected\n");
  }
  return right;
}

int run(const Options& options) {
  const auto start = Clock::now();
  const auto loaded = LoadedMethod::load(options.program, options.data, options.method, options.mmap);
  if (loaded == nullptr) {
    std::fprintf(stderr, "%s\n", executorch_ggml_last_error());
    return 1;
  }
  print_program(options, *loaded, microseconds(Clock::now() - start));

  Inputs inputs;
  if (!inputs.make(loaded->meta(), options)) {
    return 1;
  }
  for (size_t i = 0; i < inputs.values().size(); ++i) {
    std::printf("input %zu: %s\n", i, describe(inputs.values()[i]).c_str());
  }
  CallTime first;
  if (!call(loaded->method(), inputs.values(), &first)) {
    return 1;
  }
  for (size_t i = 0; i < loaded->method().outputs_size(); ++i) {
    std::printf("output %zu: %s\n", i, describe(loaded->method().get_output(i)).c_str());
  }
  const bool right = check(loaded->method(), options);
  std::printf("first call: %.2f us\n", first.total);
  const std::string memory = own_memory();
  if (!memory.empty()) {
    std::printf("memory besides mapped files: %s\n", memory.c_str());
  }
  return measure(loaded->method(), inputs.values(), options) && right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const ParseResult parsed = parse_options(argc, argv, &options);
  if (parsed == ParseResult::kHelp) {
    print_usage();
    return 0;
  }
  if (parsed == ParseResult::kError) {
    return 2;
  }
  if (options.threads > 0) {
    executorch_ggml_set_num_threads(options.threads);
  }
  executorch::runtime::runtime_init();
  return run(options);
}
