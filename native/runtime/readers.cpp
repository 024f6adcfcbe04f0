#include "readers.h"

#include <algorithm>

#include "node_builder.h"

namespace executorch_ggml {
namespace {

template <class T>
size_t size_of(const T* vector) {
  return vector ? vector->size() : 0;
}

bool is_matrix(const fb::Value& value) { return value.ne().n2() == 1 && value.ne().n3() == 1; }

bool is_view(const fb::Node& node) { return op_info(node.op_type()).moves == Moves::View; }

class GraphReaders {
 public:
  explicit GraphReaders(const fb::Graph& graph) : graph_(graph), readers_(size_of(graph.values())) {}

  std::vector<Readers> read() {
    for (size_t i = 0; i < size_of(graph_.nodes()); ++i) read(*graph_.nodes()->Get(index(i)));
    for (size_t i = 0; i < size_of(graph_.outputs()); ++i) {
      const int value = graph_.outputs()->Get(index(i))->value();
      if (known(value)) readers_[static_cast<size_t>(value)].otherwise = true;
    }
    return std::move(readers_);
  }

 private:
  static flatbuffers::uoffset_t index(size_t i) { return static_cast<flatbuffers::uoffset_t>(i); }

  bool known(int value) const { return value >= 0 && static_cast<size_t>(value) < readers_.size(); }

  void read(const fb::Node& node) {
    for (size_t k = 0; k < size_of(node.inputs()); ++k) {
      const int value = node.inputs()->Get(index(k));
      if (!known(value)) continue;
      Readers& readers = readers_[static_cast<size_t>(value)];
      StorageLayout layout;
      if (as_matrix(node, k)) {
        readers.as_matrix = true;
      } else if (k == 0 && is_op(node, OpKind::GetRows)) {
        readers.as_table = true;
      } else if (as_layer(node, k, &layout)) {
        const auto begin = readers.layers.begin();
        const auto end = readers.layers.end();
        if (std::find(begin, end, layout) == end) readers.layers.push_back(layout);
      } else {
        readers.otherwise = true;
      }
    }
  }

  bool as_matrix(const fb::Node& node, size_t input) const {
    const int other = input == 0 && size_of(node.inputs()) == 2 ? node.inputs()->Get(1) : -1;
    return known(other) && is_matrix(*graph_.values()->Get(index(static_cast<size_t>(other)))) &&
           op_info(node.op_type()).reads_packed;
  }

  // As NodeBuilder's layers choose kernels.
  bool as_layer(const fb::Node& node, size_t input, StorageLayout* layout) const {
    if (input != 1) return false;
    if (is_op(node, OpKind::Linear) || is_op(node, OpKind::QuantizedLinear)) {
      *layout = {Storage::MatrixBlocks, 1};
      return true;
    }
    const auto* convolution = attributes<fb::Conv2dNhwc>(node, OpKind::Conv2dNhwc);
    if (convolution != nullptr) return as_kernel(node, *convolution, layout);
    const auto* layer = attributes<fb::QuantizedConv2dNhwc>(node, OpKind::QuantizedConv2dNhwc);
    return layer != nullptr && as_kernel(node, *layer, layout);
  }

  template <class Convolution>
  bool as_kernel(const fb::Node& node, const Convolution& layer, StorageLayout* layout) const {
    const fb::Value& weight = *graph_.values()->Get(index(static_cast<size_t>(node.inputs()->Get(1))));
    const fb::Window2d* window = layer.window();
    const bool is_dense = window != nullptr && window->w().up() == 1 && window->h().up() == 1;
    const bool depthwise = is_dense && weight.ne().n2() == 1 && weight.ne().n3() == layer.groups();
    *layout = {depthwise ? Storage::Depthwise : Storage::KernelBlocks, layer.groups()};
    return true;
  }

  const fb::Graph& graph_;
  std::vector<Readers> readers_;
};

}  // namespace

std::vector<Readers> readers_of_values(const fb::Graph& graph) { return GraphReaders(graph).read(); }

std::vector<bool> host_nodes(const fb::Graph& graph) {
  const size_t values = size_of(graph.values());
  std::vector<bool> host(size_of(graph.nodes()), false);
  std::vector<bool> wanted(values, false);
  for (size_t i = host.size(); i-- > 0;) {
    const fb::Node& node = *graph.nodes()->Get(static_cast<flatbuffers::uoffset_t>(i));
    const bool known = node.output() >= 0 && static_cast<size_t>(node.output()) < values;
    host[i] = node.host() || (known && wanted[static_cast<size_t>(node.output())] && is_view(node));
    for (size_t k = 0; host[i] && k < size_of(node.inputs()); ++k) {
      const int value = node.inputs()->Get(static_cast<flatbuffers::uoffset_t>(k));
      if (value >= 0 && static_cast<size_t>(value) < values) wanted[static_cast<size_t>(value)] = true;
    }
  }
  return host;
}

}  // namespace executorch_ggml
