#include "kernels/recurrent/recurrent.h"
#include "kernels/simd/vec_math.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

void lstm(const Gates& gates, const float* cell, float* hidden, float* next, int64_t count) {
  each_vector(0, count, [=](int64_t i, auto lanes) {
    const auto gate = [&](int64_t which) {
      const int64_t at = which * gates.width + i;
      return lanes.load(gates.recurrent + at) + lanes.load(gates.projected + at);
    };
    const Float kept = vec_sigmoid(gate(1)) * lanes.load(cell + i);
    const Float state = kept + vec_sigmoid(gate(0)) * vec_tanh(gate(2));
    lanes.store(next + i, state);
    lanes.store(hidden + i, vec_sigmoid(gate(3)) * vec_tanh(state));
  });
}

void gru(const Gates& gates, const float* hidden, float* next, int64_t count) {
  each_vector(0, count, [=](int64_t i, auto lanes) {
    const auto recurrent = [&](int64_t which) { return lanes.load(gates.recurrent + which * gates.width + i); };
    const auto projected = [&](int64_t which) { return lanes.load(gates.projected + which * gates.width + i); };
    const Float reset = vec_sigmoid(recurrent(0) + projected(0));
    const Float update = vec_sigmoid(recurrent(1) + projected(1));
    const Float candidate = vec_tanh(projected(2) + recurrent(2) * reset);
    lanes.store(next + i, (lanes.load(hidden + i) - candidate) * update + candidate);
  });
}

}  // namespace

const RecurrentTable& recurrent_loops() {
  static constexpr RecurrentTable kTable = {lstm, gru};
  return kTable;
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
