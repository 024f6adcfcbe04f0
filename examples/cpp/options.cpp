#include "options.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr char kUsage[] =
    R"(usage: run_pte PROGRAM.pte [option]...

Runs a method of an ExecuTorch program, prints its outputs, and times it.

  --method NAME      method to run (forward)
  --data FILE.ptd    external weights; may be repeated
  --input FILE       raw bytes of the next input; inputs without a file are all ones
  --shape N,N,...    sizes of the next input ("-" for those in the program, which are the largest it takes)
  --expect FILE      raw bytes to compare the next output with; a difference makes the exit status 1
  --tolerance X      largest difference, relative to the largest expected magnitude (1e-4)
  --threads N        threads of GgmlBackend (the EXECUTORCH_GGML_NUM_THREADS variable, or one a core)
  --iterations N     timed calls (20)
  --warmup N         calls before those (3)
  --no-mmap          read the program into memory instead of mapping it
)";

bool parse_count(const char* text, int minimum, int* value) {
  char* end = nullptr;
  const long parsed = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || parsed < minimum || parsed > 100000000) {
    return false;
  }
  *value = static_cast<int>(parsed);
  return true;
}

bool parse_number(const char* text, double* value) {
  char* end = nullptr;
  *value = std::strtod(text, &end);
  return end != text && *end == '\0' && *value >= 0;
}

// "-" is an empty shape, which stands for the program's own.
bool parse_shape(const char* text, std::vector<int32_t>* shape) {
  shape->clear();
  if (std::strcmp(text, "-") == 0) {
    return true;
  }
  for (const char* at = text;;) {
    char* end = nullptr;
    const long size = std::strtol(at, &end, 10);
    if (end == at || size < 0 || size > INT32_MAX) {
      return false;
    }
    shape->push_back(static_cast<int32_t>(size));
    if (*end == '\0') {
      return true;
    }
    if (*end != ',') {
      return false;
    }
    at = end + 1;
  }
}

// Takes one option that has a value.
bool apply(const std::string& name, const char* value, Options* options) {
  if (name == "--method") {
    options->method = value;
  } else if (name == "--data") {
    options->data.emplace_back(value);
  } else if (name == "--input") {
    options->inputs.emplace_back(value);
  } else if (name == "--expect") {
    options->expected.emplace_back(value);
  } else if (name == "--shape") {
    options->shapes.emplace_back();
    return parse_shape(value, &options->shapes.back());
  } else if (name == "--tolerance") {
    return parse_number(value, &options->tolerance);
  } else if (name == "--threads") {
    return parse_count(value, 1, &options->threads);
  } else if (name == "--iterations") {
    return parse_count(value, 1, &options->iterations);
  } else if (name == "--warmup") {
    return parse_count(value, 0, &options->warmup);
  } else {
    return false;
  }
  return true;
}

}  // namespace

void print_usage() { std::fputs(kUsage, stdout); }

ParseResult parse_options(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help" || name == "-h") {
      return ParseResult::kHelp;
    }
    if (name == "--no-mmap") {
      options->mmap = false;
    } else if (name.rfind("--", 0) != 0 && options->program.empty()) {
      options->program = name;
    } else if (i + 1 >= argc || !apply(name, argv[i + 1], options)) {
      std::fprintf(stderr, "run_pte: '%s%s%s' is not understood; see --help\n", name.c_str(), i + 1 < argc ? " " : "",
                   i + 1 < argc ? argv[i + 1] : "");
      return ParseResult::kError;
    } else {
      ++i;
    }
  }
  if (options->program.empty()) {
    std::fputs("run_pte: no program given; see --help\n", stderr);
    return ParseResult::kError;
  }
  return ParseResult::kRun;
}
