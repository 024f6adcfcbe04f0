// Rounding floats to integers of a grid and back, step by step as torch computes it in f32.
#include "kernels/quantized/elementwise.h"

#include "kernels/quantized/rounding.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// Calls run(i, to, count) for each vector of n elements: `count` of them from i on, written to `to`, which has room for
// a whole vector.
template <class Y, class Run>
VEC_INLINE void by_vectors(int64_t n, Y* y, const Run& run) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) run(i, y + i, kLanes);
  if (i < n) {
    Y last[kLanes];
    run(i, last, static_cast<int>(n - i));
    for (int64_t k = 0; k < n - i; ++k) y[i + k] = last[k];
  }
}

// The elements from i on, `count` of them.
template <class T>
VEC_INLINE Int load_some(const T* from, int count) {
  if (count == kLanes) return load_narrow(from);
  T some[kLanes] = {};
  for (int k = 0; k < count; ++k) some[k] = from[k];
  return load_narrow(some);
}

VEC_INLINE Float load_floats_of(const float* from, int count) {
  return count == kLanes ? load<Float>(from) : load_first(from, count);
}

VEC_INLINE void store_steps(uint8_t* to, Int steps) { store_bytes(to, steps); }

VEC_INLINE void store_steps(int16_t* to, Int steps) {
  for (int i = 0; i < kLanes; ++i) to[i] = static_cast<int16_t>(steps[i]);
}

template <class Y>
void quantize_to(const float* x, int64_t n, const QuantizeParams& p, Y* y) {
  const Rounding rounding(static_cast<float>(p.zero), static_cast<float>(p.low), static_cast<float>(p.high));
  by_vectors(n, y, [&](int64_t i, Y* to, int count) {
    store_steps(to, rounding.steps(load_floats_of(x + i, count) * p.inverse));
  });
}

void quantize(const float* x, int64_t n, const QuantizeParams& p, void* y) {
  if (p.dtype == DType::I16) return quantize_to(x, n, p, static_cast<int16_t*>(y));
  quantize_to(x, n, p, static_cast<uint8_t*>(y));
}

template <class X>
void dequantize_from(const X* x, const float* scales, int64_t n, const DequantizeParams& p, float* y) {
  const auto zero = static_cast<int32_t>(p.zero);
  by_vectors(n, y, [&](int64_t i, float* to, int count) {
    Float value = floats_of(load_some(x + i, count) - zero) * p.scale;
    if (scales != nullptr) value *= load_floats_of(scales + i, count);
    store(to, value);
  });
}

void dequantize(const void* x, DType type, const float* scales, int64_t n, const DequantizeParams& p, float* y) {
  if (type == DType::I16) return dequantize_from(static_cast<const int16_t*>(x), scales, n, p, y);
  if (type == DType::U8) return dequantize_from(static_cast<const uint8_t*>(x), scales, n, p, y);
  dequantize_from(static_cast<const int8_t*>(x), scales, n, p, y);
}

struct Add {
  static VEC_INLINE Float of(Float a, Float b) { return a + b; }
};
struct Sub {
  static VEC_INLINE Float of(Float a, Float b) { return a - b; }
};
struct Mul {
  static VEC_INLINE Float of(Float a, Float b) { return a * b; }
};

// Bytes as numbers: unsigned ones are read as signed ones, of which the low byte counts.
struct Operand8 {
  const int8_t* bytes;
  int32_t mask;
  int32_t zero;
  float scale;

  Operand8(const void* from, DType type, int64_t zero_point, float scale)
      : bytes(static_cast<const int8_t*>(from)),
        mask(type == DType::U8 ? 0xff : -1),
        zero(static_cast<int32_t>(zero_point)),
        scale(scale) {}

  VEC_INLINE Float at(int64_t i, int count) const {
    return rounded(floats_of((load_some(bytes + i, count) & mask) - zero) * scale);
  }
};

template <class Function>
void combine(const Operand8& a, const Operand8& b, int64_t n, const QuantizedBinaryParams& p, void* y) {
  const Rounding rounding(static_cast<float>(p.output.zero), p.output.low, p.output.high);
  by_vectors(n, static_cast<uint8_t*>(y), [&](int64_t i, uint8_t* to, int count) {
    store_bytes(to, rounding.steps(rounded(Function::of(a.at(i, count), b.at(i, count))) * p.inverse));
  });
}

void binary(const void* a, DType a_type, const void* b, DType b_type, int64_t n, const QuantizedBinaryParams& p,
            void* y) {
  const Operand8 left(a, a_type, p.a_zero, p.a_scale);
  const Operand8 right(b, b_type, p.b_zero, p.b_scale);
  if (p.kind == BinaryKind::Add) return combine<Add>(left, right, n, p, y);
  if (p.kind == BinaryKind::Sub) return combine<Sub>(left, right, n, p, y);
  combine<Mul>(left, right, n, p, y);
}

void lookup_one_by_one(const uint8_t* __restrict x, int64_t n, const uint8_t* __restrict table, uint8_t* __restrict y) {
  for (int64_t i = 0; i < n; ++i) y[i] = table[x[i]];
}

#if defined(__AVX2__)

#if defined(__AVX512BW__)
using Bytes = __m512i;
VEC_INLINE Bytes broadcast(__m128i x) { return _mm512_maskz_broadcast_i32x4(0xffff, x); }
VEC_INLINE Bytes looked_up(Bytes table, Bytes index) { return _mm512_maskz_shuffle_epi8(~0ull, table, index); }
VEC_INLINE Bytes less_saturated(Bytes a, Bytes b) { return _mm512_maskz_subs_epi8(~0ull, a, b); }
#else
using Bytes = __m256i;
VEC_INLINE Bytes broadcast(__m128i x) { return _mm256_broadcastsi128_si256(x); }
VEC_INLINE Bytes looked_up(Bytes table, Bytes index) { return _mm256_shuffle_epi8(table, index); }
VEC_INLINE Bytes less_saturated(Bytes a, Bytes b) { return _mm256_subs_epi8(a, b); }
#endif

// Sixteen tables of 16 bytes by instructions that give 0 for a negative index. Each half of the indices, 128 of them
// from 0 on, goes down by 16 a table: a table counts until the index is negative, so each holds what it differs by from
// the one before it.
void lookup(const uint8_t* x, int64_t n, const uint8_t* table, uint8_t* y) {
  constexpr int kHalf = 8;
  constexpr int64_t kBytes = sizeof(Bytes);
  if (n < 16 * kBytes) return lookup_one_by_one(x, n, table, y);
  Bytes tables[2][kHalf];
  for (int half = 0; half < 2; ++half) {
    __m128i before = {};
    for (int i = 0; i < kHalf; ++i) {
      const auto of_sixteen = load<__m128i>(table + (half * kHalf + i) * 16);
      tables[half][i] = broadcast(of_sixteen ^ before);
      before = of_sixteen;
    }
  }
  const Bytes sixteen = reinterpret_cast<Bytes>(Vec<uint8_t, kBytes>{} + static_cast<uint8_t>(16));
  const Bytes flip = reinterpret_cast<Bytes>(Vec<uint8_t, kBytes>{} + static_cast<uint8_t>(0x80));
  int64_t i = 0;
  for (; i + kBytes <= n; i += kBytes) {
    Bytes index[2] = {load<Bytes>(x + i), load<Bytes>(x + i) ^ flip};
    Bytes sum = {};
    VEC_UNROLL
    for (int t = 0; t < kHalf; ++t) {
      VEC_UNROLL
      for (int half = 0; half < 2; ++half) {
        sum ^= looked_up(tables[half][t], index[half]);
        index[half] = less_saturated(index[half], sixteen);
      }
    }
    store(y + i, sum);
  }
  lookup_one_by_one(x + i, n - i, table, y + i);
}

#else

void lookup(const uint8_t* x, int64_t n, const uint8_t* table, uint8_t* y) { lookup_one_by_one(x, n, table, y); }

#endif

}  // namespace

const QuantizedLoops& quantized_loops() {
  static constexpr QuantizedLoops kLoops = {quantize, dequantize, binary, lookup};
  return kLoops;
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
