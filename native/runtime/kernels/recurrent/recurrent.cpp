// Steps of recurrent networks behind their products: gates, activations and the state's update in one pass.
#include "kernels/recurrent/recurrent.h"

#include <algorithm>

#include "kernels/kernels.h"
#include "kernels/partition.h"

namespace executorch_ggml::kernels {

namespace {

constexpr int64_t kUnits = 64;  // of a row, at a time: what threads write lies in cache lines of their own

template <class T>
T* row_of(const ggml_tensor* tensor, int64_t row) {
  return reinterpret_cast<T*>(static_cast<char*>(tensor->data) + row * tensor->nb[1]);
}

// Calls step(gates, row, unit, count) for each run of units that are this thread's, the gates being the run's.
template <class Step>
void each_run(const ggml_tensor* dst, int ith, int nth, const Step& step) {
  const ggml_tensor* state = dst->src[2];
  const int64_t width = state->ne[0];
  const int64_t runs = ceil_div(width, kUnits);
  const Range mine = Range::part(runs * state->ne[1], ith, nth);
  for (int64_t run = mine.begin; run < mine.end; ++run) {
    const int64_t row = run / runs;
    const int64_t unit = run % runs * kUnits;
    const Gates gates = {row_of<const float>(dst->src[0], row) + unit, row_of<const float>(dst->src[1], row) + unit,
                         width};
    step(gates, row, unit, std::min(kUnits, width - unit));
  }
}

}  // namespace

void lstm_cell(ggml_tensor* dst, int ith, int nth, void*) {
  const LstmFn lstm = KERNEL_PICK(recurrent_loops)().lstm;
  const int64_t plane = static_cast<int64_t>(dst->nb[2] / sizeof(float));
  each_run(dst, ith, nth, [&](const Gates& gates, int64_t row, int64_t unit, int64_t count) {
    float* hidden = row_of<float>(dst, row) + unit;
    lstm(gates, row_of<const float>(dst->src[2], row) + unit, hidden, hidden + plane, count);
  });
}

void gru_cell(ggml_tensor* dst, int ith, int nth, void*) {
  const GruFn gru = KERNEL_PICK(recurrent_loops)().gru;
  each_run(dst, ith, nth, [&](const Gates& gates, int64_t row, int64_t unit, int64_t count) {
    gru(gates, row_of<const float>(dst->src[2], row) + unit, row_of<float>(dst, row) + unit, count);
  });
}

}  // namespace executorch_ggml::kernels
