#include "kernels/simd/arm_features.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>

#include <cstddef>
#endif

namespace executorch_ggml::kernels {

#if defined(__aarch64__) && defined(__linux__)

// The kernel's interface, which older headers don't name.
ArmFeatures arm_features() {
  constexpr unsigned long kDotprod = 1ul << 20;  // of AT_HWCAP
  constexpr unsigned long kI8mm = 1ul << 13;     // of AT_HWCAP2
  constexpr unsigned long kBf16 = 1ul << 14;
  const unsigned long first = getauxval(AT_HWCAP);
  const unsigned long second = getauxval(AT_HWCAP2);
  return {(first & kDotprod) != 0, (second & kI8mm) != 0, (second & kBf16) != 0};
}

#elif defined(__aarch64__) && defined(__APPLE__)

namespace {

bool has_feature(const char* name) {
  int value = 0;
  size_t size = sizeof(value);
  return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
}

}  // namespace

ArmFeatures arm_features() {
  return {has_feature("hw.optional.arm.FEAT_DotProd"), has_feature("hw.optional.arm.FEAT_I8MM"),
          has_feature("hw.optional.arm.FEAT_BF16")};
}

#else

ArmFeatures arm_features() { return {}; }

#endif

}  // namespace executorch_ggml::kernels
