// Four floats at a time, moved between rows and planes: compilers do it one by one.
#pragma once

#include <cstdint>
#include <cstring>

namespace executorch_ggml::kernels {

constexpr int64_t kQuad = 4;
typedef float Quad __attribute__((vector_size(kQuad * sizeof(float))));

inline Quad load_quad(const char* from) {
  Quad quad;
  std::memcpy(&quad, from, sizeof(quad));
  return quad;
}

inline void store_quad(char* to, Quad quad) { std::memcpy(to, &quad, sizeof(quad)); }

// Four pixels of three planes, an image's colors, so many bytes apart: one pixel after the other.
inline void interleave_colors(const char* from, int64_t plane, char* to) {
  constexpr int64_t kBytes = sizeof(Quad);
  const Quad a = load_quad(from);
  const Quad b = load_quad(from + plane);
  const Quad c = load_quad(from + 2 * plane);
  const Quad ab = __builtin_shufflevector(a, b, 0, 4, 2, 6);
  const Quad ca = __builtin_shufflevector(c, a, 0, 5, 2, 7);
  const Quad bc = __builtin_shufflevector(b, c, 1, 5, 3, 7);
  store_quad(to, __builtin_shufflevector(ab, ca, 0, 1, 4, 5));
  store_quad(to + kBytes, __builtin_shufflevector(bc, ab, 0, 1, 6, 7));
  store_quad(to + 2 * kBytes, __builtin_shufflevector(ca, bc, 2, 3, 6, 7));
}

}  // namespace executorch_ggml::kernels
