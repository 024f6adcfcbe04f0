#include "traced_values.h"

#include <algorithm>

#include "ggml-backend.h"
#include "node_builder.h"
#include "node_observer.h"
#include "payload.h"
#include "strided_copy.h"

namespace executorch_ggml {
namespace {

constexpr flatbuffers::uoffset_t kDims = 4;

Status error(const fb::Node& node, const char* message) {
  const char* name = node.name() != nullptr ? node.name()->c_str() : "";
  return Status::error(format("node %s: its form in the traced program %s; export the model again", name, message));
}

bool is_permutation(const flatbuffers::Vector<uint8_t>* axes) {
  unsigned seen = 0;
  for (flatbuffers::uoffset_t i = 0; axes != nullptr && i < axes->size(); ++i) {
    if (axes->Get(i) < kDims) seen |= 1u << axes->Get(i);
  }
  return axes != nullptr && axes->size() == kDims && seen == 0xFu;
}

bool is_plain(DType dtype) { return dtype <= DType::F64; }

int64_t count(const int64_t* sizes, size_t rank) {
  int64_t elements = 1;
  for (size_t d = 0; d < rank; ++d) elements = saturating_mul(elements, sizes[d]);
  return elements;
}

// False where the form is not one of the tensor: then it is no value to show.
bool describe_value(const fb::Graph& graph, const fb::Node& node, const Shapes& shapes, TracedValue* value) {
  const fb::TracedForm& form = *node.traced();
  value->dtype = static_cast<DType>(graph.values()->Get(node.output())->dtype());
  if (!is_plain(value->dtype) || value->tensor->type != storage_type(value->dtype)) return false;
  if (!shapes.sizes(*form.ne(), &value->ne).ok()) return false;
  for (flatbuffers::uoffset_t i = 0; i < kDims; ++i) value->axes[i] = form.axes()->Get(i);
  for (flatbuffers::uoffset_t d = 0; form.shape() != nullptr && d < form.shape()->size(); ++d) {
    int64_t size = 0;
    if (!shapes.size(form.shape()->Get(d), &size).ok()) return false;
    value->sizes.push_back(size);
  }
  const int64_t elements = ggml_nelements(value->tensor);
  return count(value->ne.data(), kDims) == elements && count(value->sizes.data(), value->sizes.size()) == elements;
}

// The elements of a ggml tensor in their order. Empty where they lie outside of what was computed.
std::vector<char> in_order(const TracedValue& value) {
  const ggml_tensor& tensor = *value.tensor;
  const size_t item = ggml_type_size(tensor.type);
  const size_t bytes = ggml_nbytes(value.computed);
  const size_t offset = tensor.view_offs - value.computed->view_offs;  // both in what the first view shows
  const bool inside = tensor.view_offs >= value.computed->view_offs && offset <= bytes;
  if (value.computed->data == nullptr || !inside || ggml_nbytes(&tensor) > bytes - offset) return {};
  const auto* first = static_cast<const char*>(value.computed->data);
  std::vector<char> copied;
  if (value.computed->buffer != nullptr && !ggml_backend_buffer_is_host(value.computed->buffer)) {
    copied.resize(bytes);
    ggml_backend_tensor_get(value.computed, copied.data(), 0, bytes);
    first = copied.data();
  }
  first += offset;
  int64_t from[kDims];
  int64_t to[kDims];
  int64_t stride = 1;
  for (flatbuffers::uoffset_t i = 0; i < kDims; ++i) {
    if (tensor.nb[i] % item != 0) return {};
    from[i] = static_cast<int64_t>(tensor.nb[i] / item);
    to[i] = stride;
    stride *= tensor.ne[i];
  }
  std::vector<char> dense(static_cast<size_t>(stride) * item);
  copy_strided(dense.data(), to, first, from, tensor.ne, kDims, static_cast<int64_t>(item));
  return dense;
}

}  // namespace

const ggml_tensor* computed_before(const ggml_tensor* tensor) {
  while (tensor != nullptr && is_view(tensor)) tensor = tensor->src[0];
  return tensor;
}

Status check_traced(const fb::Graph& graph) {
  for (flatbuffers::uoffset_t i = 0; graph.nodes() != nullptr && i < graph.nodes()->size(); ++i) {
    const fb::Node& node = *graph.nodes()->Get(i);
    const fb::TracedForm* form = node.traced();
    if (form == nullptr) continue;
    if (form->ne() == nullptr) return error(node, "has no dims");
    if (!is_permutation(form->axes())) return error(node, "has axes that are no permutation of 0 to 3");
    if (!is_aligned(form->shape())) return error(node, "has a shape that is not aligned to 8 bytes");
    if (form->shape() != nullptr && form->shape()->size() > kMaxTracedRank) return error(node, "has more than 16 dims");
  }
  return {};
}

std::vector<TracedValue> traced_values(const fb::Graph& graph, const Shapes& shapes,
                                       const std::vector<ggml_tensor*>& outputs) {
  std::vector<TracedValue> values;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const fb::Node& node = *graph.nodes()->Get(static_cast<flatbuffers::uoffset_t>(i));
    if (node.traced() == nullptr || outputs[i] == nullptr) continue;
    TracedValue value;
    value.node = static_cast<int>(i);
    value.tensor = outputs[i];
    value.computed = computed_before(value.tensor);
    if (value.computed != nullptr && describe_value(graph, node, shapes, &value)) values.push_back(std::move(value));
  }
  return values;
}

std::vector<char> read_traced(const TracedValue& value) {
  std::vector<char> elements = in_order(value);
  if (elements.empty()) return {};
  const size_t item = ggml_type_size(value.tensor->type);
  int64_t moved[kDims];  // the dims after the permutation
  for (size_t i = 0; i < kDims; ++i) moved[value.axes[i]] = value.ne[i];
  int64_t strides[kDims];
  int64_t stride = 1;
  for (size_t i = 0; i < kDims; ++i) {
    strides[i] = stride;
    stride *= moved[i];
  }
  int64_t from[kDims];
  int64_t to[kDims];
  stride = 1;
  for (size_t i = 0; i < kDims; ++i) {
    from[i] = stride;
    to[i] = strides[value.axes[i]];
    stride *= value.ne[i];
  }
  std::vector<char> result(elements.size());
  copy_strided(result.data(), to, elements.data(), from, value.ne.data(), kDims, static_cast<int64_t>(item));
  return result;
}

}  // namespace executorch_ggml
