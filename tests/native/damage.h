// Damaged forms of one IR program: bits and bytes anywhere, and fields by what they mean. The checksum is right again
// afterwards, so that the damage reaches what is behind it. One number gives one form, always the same.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ggml_ir_generated.h"

namespace executorch_ggml::testing {

constexpr size_t kHeaderSize = 16;

inline uint32_t crc32(const char* data, size_t size) {
  uint32_t crc = 0xFFFFFFFFu;
  for (size_t i = 0; i < size; ++i) {
    crc ^= static_cast<uint8_t>(data[i]);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0xEDB88320u : 0u);
  }
  return crc ^ 0xFFFFFFFFu;
}

// Writes the header that goes with what follows it.
inline void seal(std::string* ir) {
  if (ir->size() < kHeaderSize) return;
  const uint64_t size = ir->size() - kHeaderSize;
  const uint32_t checksum = crc32(ir->data() + kHeaderSize, size);
  std::memcpy(ir->data(), "EGGM", 4);
  std::memcpy(ir->data() + 4, &checksum, sizeof(checksum));
  std::memcpy(ir->data() + 8, &size, sizeof(size));
}

class Damager {
 public:
  // `ir` is a good program.
  explicit Damager(std::string ir) : ir_(std::move(ir)) {
    words_of_ir_.resize((ir_.size() - kHeaderSize + 7) / 8);
    std::memcpy(words_of_ir_.data(), ir_.data() + kHeaderSize, ir_.size() - kHeaderSize);
    const fb::Program& program = *fb::GetProgram(words_of_ir_.data());
    add(&choices_, field(program, fb::Program::VT_VERSION));
    for (const fb::Graph* graph : *program.graphs()) find_fields(*graph);
  }

  std::string damaged(uint64_t seed) const {
    std::string ir = ir_;
    Random random(seed * 7919 + 1);
    const auto kind = below(random, 10);
    if (kind == 0) {
      flip_bits(&ir, random);
      return ir;  // under the old checksum
    }
    if (kind == 1) {
      ir.resize(below(random, ir.size()));
    } else if (kind <= 3) {
      flip_bits(&ir, random);
    } else {
      for (auto left = 1 + below(random, 3); left > 0; --left) damage_field(&ir, random);
    }
    seal(&ir);
    return ir;
  }

 private:
  using Random = std::mt19937_64;
  using Places = std::vector<size_t>;

  static size_t below(Random& random, size_t n) { return n == 0 ? 0 : random() % n; }

  template <class T>
  static T pick(Random& random, std::initializer_list<T> choices) {
    return choices.begin()[below(random, choices.size())];
  }

  template <class T>
  static T get(const std::string& ir, size_t place) {
    T value;
    std::memcpy(&value, ir.data() + place, sizeof(T));
    return value;
  }

  template <class T>
  static void put(std::string* ir, size_t place, T value) {
    if (place + sizeof(T) <= ir->size()) std::memcpy(ir->data() + place, &value, sizeof(T));
  }

  // ------------------------------------------------------------------------------------------- where the fields are

  void add(Places* places, const void* field) {
    if (field == nullptr) return;
    const auto offset = static_cast<const char*>(field) - reinterpret_cast<const char*>(words_of_ir_.data());
    places->push_back(kHeaderSize + static_cast<size_t>(offset));
  }

  template <class T>
  void add_elements(Places* places, const flatbuffers::Vector<T>* vector) {
    for (size_t i = 0; vector != nullptr && i < vector->size(); ++i) add(places, vector->Data() + i * sizeof(T));
  }

  void add_ne(const fb::Ne& ne) {
    for (int i = 0; i < 4; ++i) add(&words_, reinterpret_cast<const char*>(&ne) + 8 * i);
  }

  template <class Table>
  static const uint8_t* field(const Table& table, flatbuffers::voffset_t name) {
    return reinterpret_cast<const flatbuffers::Table&>(table).GetAddressOf(name);
  }

  template <class Table>
  void find_leaves(const flatbuffers::Vector<flatbuffers::Offset<Table>>* leaves) {
    for (size_t i = 0; leaves != nullptr && i < leaves->size(); ++i) {
      add(&links_, field(*leaves->Get(static_cast<flatbuffers::uoffset_t>(i)), Table::VT_VALUE));
    }
  }

  void find_ports(const flatbuffers::Vector<flatbuffers::Offset<fb::Port>>* ports) {
    find_leaves(ports);
    for (size_t i = 0; ports != nullptr && i < ports->size(); ++i) {
      add_elements(&words_, ports->Get(static_cast<flatbuffers::uoffset_t>(i))->shape());
    }
  }

  void find_fields(const fb::Graph& graph) {
    for (const fb::Value* value : *graph.values()) {
      add(&dtypes_, value);
      add_ne(value->ne());
      ++values_;
    }
    for (size_t i = 0; graph.exprs() != nullptr && i < graph.exprs()->size(); ++i) {
      const auto* expr = reinterpret_cast<const char*>(graph.exprs()->Get(static_cast<flatbuffers::uoffset_t>(i)));
      add(&choices_, expr);
      add(&words_, expr + 8);
      add(&words_, expr + 16);
    }
    for (size_t i = 0; graph.symbols() != nullptr && i < graph.symbols()->size(); ++i) {
      const fb::Symbol& symbol = *graph.symbols()->Get(static_cast<flatbuffers::uoffset_t>(i));
      add(&links_, field(symbol, fb::Symbol::VT_INPUT));
      add(&links_, field(symbol, fb::Symbol::VT_DIM));
      for (auto name : {fb::Symbol::VT_SCALE, fb::Symbol::VT_OFFSET, fb::Symbol::VT_MIN, fb::Symbol::VT_MAX}) {
        add(&words_, field(symbol, name));
      }
    }
    find_ports(graph.inputs());
    find_ports(graph.outputs());
    find_pairs(graph);
    find_leaves(graph.constants());
    find_leaves(graph.states());
    for (size_t i = 0; graph.nodes() != nullptr && i < graph.nodes()->size(); ++i) {
      find_node(*graph.nodes()->Get(static_cast<flatbuffers::uoffset_t>(i)));
    }
    add(&choices_, field(graph, fb::Graph::VT_TARGET));
  }

  // A dim of an input as the caller has it, and as the graph has it.
  void find_pairs(const fb::Graph& graph) {
    for (size_t i = 0; graph.inputs() != nullptr && i < graph.inputs()->size(); ++i) {
      const fb::Port& port = *graph.inputs()->Get(static_cast<flatbuffers::uoffset_t>(i));
      const auto& ne = graph.values()->Get(static_cast<flatbuffers::uoffset_t>(port.value()))->ne();
      const size_t rank = port.shape() == nullptr ? 0 : port.shape()->size();
      for (size_t d = 0; d < rank && rank <= 4; ++d) {
        add(&port_dims_, port.shape()->Data() + 8 * d);
        add(&value_dims_, reinterpret_cast<const char*>(&ne) + 8 * (rank - 1 - d));
      }
    }
  }

  void find_node(const fb::Node& node) {
    if (const fb::TracedForm* form = node.traced(); form != nullptr) {
      add_ne(*form->ne());
      add_elements(&choices_, form->axes());
      add_elements(&words_, form->shape());
    }
    add(&choices_, field(node, fb::Node::VT_OP_TYPE));
    add(&choices_, field(node, fb::Node::VT_HOST));
    add(&links_, field(node, fb::Node::VT_OUTPUT));
    add_elements(&links_, node.inputs());
    find_attributes(static_cast<const uint8_t*>(node.op()));
    if (const auto* permute = node.op_as_Permute()) add_elements(&words_, permute->axes());
    if (const auto* view = node.op_as_View()) add_elements(&words_, view->step());
    if (const auto* reduce = node.op_as_Reduce()) add_elements(&words_, reduce->axes());
  }

  // An op's table, whichever it is: all that could be a number, a float or an enum in it.
  void find_attributes(const uint8_t* table) {
    if (table == nullptr) return;
    const uint8_t* vtable = table - flatbuffers::ReadScalar<flatbuffers::soffset_t>(table);
    const auto size = flatbuffers::ReadScalar<flatbuffers::voffset_t>(vtable + 2);
    for (size_t at = 4; at < size; ++at) {
      const uint8_t* place = table + at;
      if (reinterpret_cast<uintptr_t>(place) % 8 == 0 && at + 8 <= size) add(&words_, place);
      if (reinterpret_cast<uintptr_t>(place) % 4 == 0 && at + 4 <= size) add(&floats_, place);
      add(&choices_, place);
    }
  }

  // --------------------------------------------------------------------------------------------------------- damage

  static void flip_bits(std::string* ir, Random& random) {
    for (auto left = 1 + below(random, 4); left > 0 && ir->size() > kHeaderSize; --left) {
      const size_t place = kHeaderSize + below(random, ir->size() - kHeaderSize);
      (*ir)[place] = static_cast<char>((*ir)[place] ^ (1 << below(random, 8)));
    }
  }

  void damage_field(std::string* ir, Random& random) const {
    switch (below(random, 14)) {
      case 0:
      case 1:
      case 2:
        return damage_word(ir, random);
      case 3:
      case 4:
        return damage_link(ir, random);
      case 5:
        return put(ir, one_of(dtypes_, random), static_cast<uint8_t>(below(random, 12)));
      case 6:
        return put(ir, one_of(choices_, random), static_cast<uint8_t>(below(random, below(random, 2) == 0 ? 12 : 256)));
      case 7:
        return damage_float(ir, random);
      case 8:
        return retype(ir, random);
      case 9:
        return resize_input(ir, random);
      default:
        return resize(ir, random);
    }
  }

  static size_t one_of(const Places& places, Random& random) {
    return places.empty() ? std::numeric_limits<size_t>::max() / 2 : places[below(random, places.size())];
  }

  static int64_t extreme(Random& random) {
    constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    return pick<int64_t>(random, {0,
                                  -1,
                                  1,
                                  2,
                                  3,
                                  4,
                                  5,
                                  7,
                                  8,
                                  16,
                                  17,
                                  64,
                                  100,
                                  1 << 12,
                                  1 << 16,
                                  1 << 20,
                                  1 << 24,
                                  (1 << 24) - 1,
                                  INT32_MAX,
                                  int64_t{1} << 31,
                                  int64_t{1} << 32,
                                  int64_t{1} << 40,
                                  int64_t{1} << 62,
                                  kMost,
                                  kLeast,
                                  INT32_MIN,
                                  -2,
                                  -3,
                                  -100});
  }

  void damage_word(std::string* ir, Random& random) const {
    const size_t place = one_of(words_, random);
    const size_t other = one_of(words_, random);
    if (words_.empty()) return;
    const auto a = get<int64_t>(*ir, place);
    const auto b = get<int64_t>(*ir, other);
    switch (below(random, 4)) {
      case 0:
        return put(ir, place, b);
      case 1:
        put(ir, place, b);
        return put(ir, other, a);
      case 2:
        return put(ir, place, static_cast<int64_t>(static_cast<uint64_t>(a) + random() % 5 - 2));
      default:
        return put(ir, place, extreme(random));
    }
  }

  void damage_link(std::string* ir, Random& random) const {
    const auto value = static_cast<int32_t>(below(random, static_cast<size_t>(values_) + 1)) - 1;
    const int32_t wild = pick<int32_t>(random, {-1, -2, values_, INT32_MAX, INT32_MIN, 0, 1});
    put(ir, one_of(links_, random), below(random, 4) == 0 ? wild : value);
  }

  void damage_float(std::string* ir, Random& random) const {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    put(ir, one_of(floats_, random),
        pick<float>(random, {0.0f, -1.0f, 1.0f, 1e30f, -kInfinity, kInfinity, kNan, 8.0f}));
  }

  // One size becomes another wherever it is used: what depends on it may still agree.
  void resize(std::string* ir, Random& random) const {
    if (words_.empty()) return;
    const auto before = get<int64_t>(*ir, one_of(words_, random));
    const int64_t after = below(random, 2) == 0 ? extreme(random) : static_cast<int64_t>(below(random, 40));
    for (size_t place : words_) {
      if (get<int64_t>(*ir, place) == before && (before > 1 || below(random, 8) == 0)) put(ir, place, after);
    }
  }

  // An input of another size, which the caller gives: for the nodes that read it to notice.
  void resize_input(std::string* ir, Random& random) const {
    const size_t i = below(random, port_dims_.size());
    const auto size = static_cast<int64_t>(below(random, 20));
    if (port_dims_.empty()) return;
    put(ir, port_dims_[i], size);
    put(ir, value_dims_[i], size);
  }

  void retype(std::string* ir, Random& random) const {
    const auto before = get<uint8_t>(*ir, one_of(dtypes_, random));
    const auto after = static_cast<uint8_t>(below(random, 10));
    for (size_t place : dtypes_) {
      if (get<uint8_t>(*ir, place) == before) put(ir, place, after);
    }
  }

  std::string ir_;
  std::vector<uint64_t> words_of_ir_;  // the FlatBuffer, aligned
  int values_ = 0;
  Places words_;       // sizes, attributes, expressions: int64
  Places links_;       // numbers of values, inputs and dims: int32
  Places port_dims_;   // of inputs
  Places value_dims_;  // the same dims of their values
  Places dtypes_;      // of values
  Places choices_;     // ops, enums, any byte of an attribute
  Places floats_;      // any four bytes of an attribute
};

}  // namespace executorch_ggml::testing
