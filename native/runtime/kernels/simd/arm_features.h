// Which instructions an ARM64 CPU has beside those of all.
#pragma once

namespace executorch_ggml::kernels {

struct ArmFeatures {
  bool dotprod;
  bool i8mm;
  bool bf16;
};

// As the system tells it; none on systems that are not asked here, and on other CPUs.
ArmFeatures arm_features();

}  // namespace executorch_ggml::kernels
