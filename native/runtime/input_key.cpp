#include "input_key.h"

#include <algorithm>
#include <cstring>

#include "node_builder.h"
#include "resource_limits.h"
#include "status.h"

namespace executorch_ggml {
namespace {

template <class T>
size_t size_of(const T* vector) {
  return vector ? vector->size() : 0;
}

const char* text(const flatbuffers::String* string) { return string ? string->c_str() : ""; }

Status check_port(const fb::Graph& graph, size_t index, const TensorView& given) {
  const fb::Port& port = *graph.inputs()->Get(index);
  const auto wanted = static_cast<DType>(graph.values()->Get(port.value())->dtype());
  if (given.dtype != wanted) {
    return Status::error(format("input %zu (%s): dtype %s, expected %s; convert it with .to(torch.%s)", index,
                                text(port.name()), dtype_name(given.dtype), dtype_name(wanted), dtype_name(wanted)));
  }
  if (given.rank != static_cast<int>(size_of(port.shape()))) {
    return Status::error(format("input %zu (%s): shape %s has %d dims, expected %zu", index, text(port.name()),
                                describe_sizes({given.sizes, given.sizes + given.rank}).c_str(), given.rank,
                                size_of(port.shape())));
  }
  const size_t item = ggml_type_size(storage_type(wanted));
  if (reinterpret_cast<uintptr_t>(given.data) % item != 0) {
    return Status::error(
        format("input %zu (%s): its data begins at an address that is not a multiple of %s's %zu bytes; copy it", index,
               text(port.name()), dtype_name(wanted), item));
  }
  return {};
}

// Checks a key's sizes against the shape expressions of the ports.
Status check_sizes(const fb::Graph& graph, const Shapes& shapes, const std::vector<int64_t>& key) {
  size_t at = 0;
  for (size_t i = 0; i < size_of(graph.inputs()); ++i) {
    const fb::Port& port = *graph.inputs()->Get(i);
    const int rank = static_cast<int>(size_of(port.shape()));
    if (rank == 0) ++at;
    for (int d = 0; d < rank; ++d, ++at) {
      int64_t expected = 0;
      EXECUTORCH_GGML_TRY(shapes.size(port.shape()->Get(d), &expected));
      if (key[at] != expected) {
        return Status::error(format("input %zu (%s): size %lld in dim %d, expected %lld", i, text(port.name()),
                                    static_cast<long long>(key[at]), d, static_cast<long long>(expected)));
      }
    }
  }
  return {};
}

// Where each symbol's source lies in the key.
std::vector<int64_t> symbol_sources(const fb::Graph& graph, const std::vector<int64_t>& key) {
  std::vector<size_t> first;
  size_t at = 0;
  for (size_t i = 0; i < size_of(graph.inputs()); ++i) {
    first.push_back(at);
    at += std::max<size_t>(1, size_of(graph.inputs()->Get(i)->shape()));
  }
  std::vector<int64_t> sources;
  for (size_t i = 0; i < size_of(graph.symbols()); ++i) {
    const fb::Symbol& symbol = *graph.symbols()->Get(i);
    sources.push_back(key[first[symbol.input()] + std::max(0, symbol.dim())]);
  }
  return sources;
}

// Whether an input is where a symbol's value is read: of other inputs of no dims the number does not matter to the
// graph.
bool gives_symbol(const fb::Graph& graph, size_t input) {
  for (size_t i = 0; i < size_of(graph.symbols()); ++i) {
    if (graph.symbols()->Get(static_cast<flatbuffers::uoffset_t>(i))->input() == static_cast<int64_t>(input))
      return true;
  }
  return false;
}

}  // namespace

Status input_key(const fb::Graph& graph, const TensorView* inputs, size_t given, std::vector<int64_t>* key) {
  if (given != size_of(graph.inputs())) {
    return Status::error(format("%zu inputs, expected %zu", given, size_of(graph.inputs())));
  }
  key->clear();
  for (size_t i = 0; i < given; ++i) {
    EXECUTORCH_GGML_TRY(check_port(graph, i, inputs[i]));
    const bool is_index = inputs[i].rank == 0 && inputs[i].dtype == DType::I64 && gives_symbol(graph, i);
    int64_t scalar = 0;
    if (is_index) std::memcpy(&scalar, inputs[i].data, sizeof(scalar));
    if (inputs[i].rank == 0) key->push_back(scalar);
    key->insert(key->end(), inputs[i].sizes, inputs[i].sizes + inputs[i].rank);
  }
  return {};
}

Status port_shape(const Shapes& shapes, const fb::Port& port, std::vector<int64_t>* sizes) {
  for (size_t d = 0; d < size_of(port.shape()); ++d) {
    int64_t size = 0;
    EXECUTORCH_GGML_TRY(shapes.size(port.shape()->Get(static_cast<flatbuffers::uoffset_t>(d)), &size));
    sizes->push_back(size);
  }
  return {};
}

Status bind_sizes(const fb::Graph& graph, const std::vector<int64_t>& key, Shapes* shapes) {
  EXECUTORCH_GGML_TRY(shapes->bind(graph, symbol_sources(graph, key)));
  return check_sizes(graph, *shapes, key);
}

int64_t symbol_value(const fb::Graph& graph, const std::vector<int64_t>& key, size_t symbol) {
  const int64_t scale = graph.symbols()->Get(static_cast<flatbuffers::uoffset_t>(symbol))->scale();
  return symbol_sources(graph, key)[symbol] / scale;
}

Status key_with_symbol(const fb::Graph& graph, const std::vector<int64_t>& key, size_t symbol, int64_t value,
                       std::vector<int64_t>* changed) {
  std::vector<int64_t> sources = symbol_sources(graph, key);
  const int64_t scale = graph.symbols()->Get(static_cast<flatbuffers::uoffset_t>(symbol))->scale();
  sources[symbol] = saturating_mul(scale, value);
  Shapes shapes;
  EXECUTORCH_GGML_TRY(shapes.bind(graph, sources));
  changed->clear();
  for (size_t i = 0; i < size_of(graph.inputs()); ++i) {
    const fb::Port& port = *graph.inputs()->Get(static_cast<flatbuffers::uoffset_t>(i));
    if (size_of(port.shape()) == 0) changed->push_back(key[changed->size()]);
    EXECUTORCH_GGML_TRY(port_shape(shapes, port, changed));
  }
  return {};
}

}  // namespace executorch_ggml
