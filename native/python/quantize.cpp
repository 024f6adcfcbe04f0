// ggml's quantizer for Python: rows of floats to blocks of any type, and back; and panels of quantized matrices.

#include "quantize.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <optional>
#include <stdexcept>

#include "ggml.h"
#include "kernels/product/panels.h"
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

bool has_panels(int number) { return kernels::has_panels(checked_type(number)); }

// Of a matrix's dims, outermost first.
size_t panels_bytes(int number, int64_t columns, int64_t length) {
  const ggml_type type = checked_type(number);
  if (!kernels::has_panels(type)) {
    throw std::invalid_argument(format("matrices of %s have no panels", ggml_type_name(type)));
  }
  constexpr int64_t kMost = int64_t{1} << 30;
  if (columns < 0 || length < 0 || columns > kMost || length > kMost || length % ggml_blck_size(type) != 0) {
    throw std::invalid_argument(format("%lld rows of %lld elements of %s are no matrix",
                                       static_cast<long long>(columns), static_cast<long long>(length),
                                       ggml_type_name(type)));
  }
  return kernels::panels_bytes(type, length, columns);
}

void check_panels(int number, int64_t columns, int64_t length, size_t matrix, size_t panels) {
  const size_t expected = panels_bytes(number, columns, length);
  const ggml_type type = checked_type(number);
  check_size(type, static_cast<size_t>(columns) * static_cast<size_t>(length), matrix);
  if (panels == expected) return;
  throw std::invalid_argument(format("panels of %zu bytes, expected %zu", panels, expected));
}

void pack_panels(int number, int64_t columns, int64_t length, const ReadBytes& from, const Bytes& into) {
  check_panels(number, columns, length, from.size(), into.size());
  nb::gil_scoped_release release;
  kernels::pack_panels(static_cast<ggml_type>(number), length, columns, from.data(), into.data());
}

void unpack_panels(int number, int64_t columns, int64_t length, const ReadBytes& from, const Bytes& into) {
  check_panels(number, columns, length, into.size(), from.size());
  nb::gil_scoped_release release;
  kernels::unpack_panels(static_cast<ggml_type>(number), length, columns, from.data(), into.data());
}

}  // namespace

void add_quantizer(nb::module_& m) {
  m.def("quantize", &quantize, nb::arg("type"), nb::arg("rows"), nb::arg("into"), nb::arg("importance").none());
  m.def("dequantize", &dequantize, nb::arg("type"), nb::arg("data"), nb::arg("into"));
  m.def("quantize_requires_importance", &requires_importance, nb::arg("type"));
  m.def("has_panels", &has_panels, nb::arg("type"));
  m.def("panels_bytes", &panels_bytes, nb::arg("type"), nb::arg("rows"), nb::arg("width"));
  m.def("pack_panels", &pack_panels, nb::arg("type"), nb::arg("rows"), nb::arg("width"), nb::arg("data"),
        nb::arg("into"));
  m.def("unpack_panels", &unpack_panels, nb::arg("type"), nb::arg("rows"), nb::arg("width"), nb::arg("data"),
        nb::arg("into"));
}

}  // namespace executorch_ggml
