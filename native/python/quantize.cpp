// ggml's quantizer for Python: rows of floats to blocks of any type, and back.

#include "quantize.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <optional>
#include <stdexcept>

#include "ggml.h"
#include "resource_limits.h"
#include "status.h"

namespace nb = nanobind;

namespace executorch_ggml {
namespace {

using Rows = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ReadBytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// More than the tables that ggml makes for a type when it first quantizes to it.
constexpr size_t kTables = 16 << 20;

// ggml aborts on what it cannot take, so all of it is checked before.
ggml_type checked_type(int number) {
  if (number < 0 || number >= GGML_TYPE_COUNT || ggml_blck_size(static_cast<ggml_type>(number)) < 2) {
    throw std::invalid_argument(format("type %d is none of ggml's quantized types", number));
  }
  return static_cast<ggml_type>(number);
}

void check_size(ggml_type type, size_t elements, size_t bytes) {
  const auto block = static_cast<size_t>(ggml_blck_size(type));
  if (elements % block == 0 && elements / block * ggml_type_size(type) == bytes) return;
  throw std::invalid_argument(format("%zu elements of %s do not fit %zu bytes", elements, ggml_type_name(type), bytes));
}

void quantize(int number, const Rows& rows, const Bytes& into, const std::optional<Floats>& importance) {
  const ggml_type type = checked_type(number);
  const auto width = static_cast<int64_t>(rows.shape(1));
  if (width % ggml_blck_size(type) != 0) throw std::invalid_argument("rows are no whole blocks");
  check_size(type, rows.size(), into.size());
  if (importance && importance->size() != rows.shape(1)) throw std::invalid_argument("one weight a column is needed");
  if (!importance && ggml_quantize_requires_imatrix(type))
    throw std::invalid_argument("an importance matrix is needed");
  const float* weights = importance ? importance->data() : nullptr;
  if (!can_allocate(kTables)) {
    throw std::runtime_error(
        format("no memory to quantize to %s: its tables may need %zu bytes", ggml_type_name(type), kTables));
  }
  nb::gil_scoped_release release;
  if (rows.size() > 0) {
    ggml_quantize_chunk(type, rows.data(), into.data(), 0, static_cast<int64_t>(rows.shape(0)), width, weights);
  }
}

void dequantize(int number, const ReadBytes& from, const Floats& into) {
  const ggml_type type = checked_type(number);
  check_size(type, into.size(), from.size());
  const ggml_to_float_t to_float = ggml_get_type_traits(type)->to_float;
  if (to_float == nullptr) throw std::invalid_argument(format("%s cannot be read back", ggml_type_name(type)));
  nb::gil_scoped_release release;
  to_float(from.data(), into.data(), static_cast<int64_t>(into.size()));
}

bool requires_importance(int number) { return ggml_quantize_requires_imatrix(checked_type(number)); }

}  // namespace

void add_quantizer(nb::module_& m) {
  m.def("quantize", &quantize, nb::arg("type"), nb::arg("rows"), nb::arg("into"), nb::arg("importance").none());
  m.def("dequantize", &dequantize, nb::arg("type"), nb::arg("data"), nb::arg("into"));
  m.def("quantize_requires_importance", &requires_importance, nb::arg("type"));
}

}  // namespace executorch_ggml
