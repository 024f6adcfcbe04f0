#include "cpu_library.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "cpu.h"
#include "cpu_proof.h"
#include "devices.h"
#include "platform/platform.h"
#include "status.h"

namespace executorch_ggml {
namespace {

using kernels::Isa;

Isa isa_of(ggml_backend_reg_t reg) {
  static constexpr struct {
    const char* feature;
    Isa isa;
  } kFeatures[] = {{"DOTPROD", Isa::Dotprod},        {"MATMUL_INT8", Isa::I8mm}, {"AVX", Isa::Avx2},
                   {"AVX_VNNI", Isa::AvxVnni},       {"AVX512", Isa::Avx512},    {"AVX512_VNNI", Isa::Avx512Vnni},
                   {"AVX512_BF16", Isa::Avx512Bf16}, {"AMX_INT8", Isa::Amx}};
  const auto features = reinterpret_cast<ggml_backend_get_features_t>(
      ggml_backend_reg_get_proc_address(reg, "ggml_backend_get_features"));
  Isa isa = Isa::Generic;
  for (const ggml_backend_feature* f = features ? features(reg) : nullptr; f != nullptr && f->name != nullptr; ++f) {
    for (const auto& [feature, its] : kFeatures) {
      if (std::strcmp(f->name, feature) == 0) isa = std::max(isa, its);
    }
  }
  return isa;
}

// A library opened to look at: closed again, which ggml itself does with those that it does not choose.
class Candidate {
 public:
  explicit Candidate(const std::string& path) : handle_(platform::open_library(path), &close) {}

  // How ggml ranks it; 0 where this CPU does not run it.
  int score() const {
    const auto function = find<int (*)()>("ggml_backend_score");
    return function != nullptr ? function() : 0;
  }
  ggml_backend_reg_t reg() const {
    const auto function = find<ggml_backend_reg_t (*)()>("ggml_backend_init");
    return function != nullptr ? function() : nullptr;
  }

 private:
  static void close(void* handle) {
    if (handle != nullptr) platform::close_library(handle);
  }
  template <class Function>
  Function find(const char* name) const {
    return handle_ != nullptr ? reinterpret_cast<Function>(platform::find_symbol(handle_.get(), name)) : nullptr;
  }
  std::unique_ptr<void, decltype(&close)> handle_;
};

// The path of the best library of a folder that uses no more than `most`; "" where there is none.
std::string best_library(const std::string& folder, Isa most) {
  std::string best;
  int best_score = 0;
  for (const std::string& path : platform::plugins(folder, "ggml-cpu-")) {
    const Candidate candidate(path);
    const int score = candidate.score();
    if (score <= best_score) continue;
    ggml_backend_reg_t reg = candidate.reg();
    if (reg == nullptr || isa_of(reg) > most) continue;
    best = path;
    best_score = score;
  }
  return best;
}

ggml_backend_dev_t loaded_cpu() { return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU); }

// Put another library in the place of one that uses more than EXECUTORCH_GGML_CPU allows.
Status limit_library(const std::string& folder, bool of_host) {
  Isa most = Isa::Amx;
  EXECUTORCH_GGML_TRY(read_allowed_isa(&most));
  ggml_backend_dev_t cpu = loaded_cpu();
  if (cpu == nullptr) return {};
  const CpuLibrary library = library_of(cpu);
  if (library.isa <= most) return {};
  const std::string path = of_host ? "" : best_library(folder, most);
  if (path.empty()) {
    return Status::error(
        format("EXECUTORCH_GGML_CPU is %s, but ggml's CPU library %s is compiled for %s and %s; %s",
               kernels::isa_name(most), library.path.c_str(), kernels::isa_name(library.isa),
               of_host ? "the host program has loaded it" : "there is no other beside it that this CPU runs",
               of_host ? "load another there, or unset the variable"
                       : "unset the variable, or install ggml with a library for each processor (make GGML=variants)"));
  }
  ggml_backend_unload(ggml_backend_dev_backend_reg(cpu));
  return ggml_backend_load(path.c_str()) != nullptr ? Status() : Status::error("ggml cannot load " + path);
}

}  // namespace

CpuLibrary library_of(ggml_backend_dev_t cpu) {
  ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(cpu);
  return {platform::library_of_address(reg), isa_of(reg)};
}

Status load_cpu_library(const std::string& folder) {
  const bool of_host = loaded_cpu() != nullptr;
  if (!of_host) ggml_backend_load_all_from_path(folder.c_str());
  EXECUTORCH_GGML_TRY(limit_library(folder, of_host));
  return loaded_cpu() != nullptr ? prove_products(loaded_cpu(), library_of(loaded_cpu()).path, {1, 8}) : Status();
}

Status prove_cpu_library(const std::string& path, bool* runs) {
  const QuietLog quiet;
  *runs = Candidate(path).score() > 0;
  if (!*runs) return {};
  ggml_backend_reg_t reg = ggml_backend_load(path.c_str());
  if (reg == nullptr) return Status::error("ggml cannot load " + path);
  return prove_products(ggml_backend_reg_dev_get(reg, 0), path, {1, 2, 3, 8, 16, 33, 64});
}

}  // namespace executorch_ggml
