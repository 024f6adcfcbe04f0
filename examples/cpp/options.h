// The command line of run_pte.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

struct Options {
  std::string program;
  std::string method = "forward";
  std::vector<std::string> data;             // .ptd files with external weights
  std::vector<std::string> inputs;           // raw files, in order; inputs without one are all ones
  std::vector<std::vector<int32_t>> shapes;  // sizes of the inputs, in order; others are as the program was exported
  std::vector<std::string> expected;         // raw files to compare the outputs with, in order
  double tolerance = 1e-4;                   // largest difference, relative to the largest expected magnitude
  int threads = 0;                           // 0: as the backend decides
  int iterations = 20;
  int warmup = 3;
  bool mmap = true;
};

enum class ParseResult { kRun, kHelp, kError };

// On kError the reason has been printed.
ParseResult parse_options(int argc, char** argv, Options* options);

void print_usage();
