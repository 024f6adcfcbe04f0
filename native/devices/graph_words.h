// A ggml graph as numbers: what a plan depends on, and what Python makes its IR of.
//
// Per tensor kWordsPerTensor words; leaves come before what reads them. Two graphs of the same words compute the same
// function of what their leaves hold, constants apart, whose contents a buffer's number and version stand for.
#pragma once

#include <cstdint>
#include <vector>

#include "ggml_host.h"

namespace executorch_ggml::devices {

class Device;

enum Role : int64_t { kInput = 0, kConstant = 1, kNode = 2, kView = 3 };  // a view is a node that computes nothing

struct TensorWords {
  int64_t role;
  int64_t op;
  int64_t type;
  int64_t live;  // whether a node's result is there for others when the graph has run
  int64_t ne[4];
  int64_t nb[4];
  int64_t root;    // the tensor whose memory it shows, itself where it has its own
  int64_t offset;  // in bytes
  int64_t params[8];
  int64_t src[GGML_MAX_SRC];  // -1: none
  int64_t buffer;             // a constant's: number and version of its buffer, and where it is in it
  int64_t version;
  int64_t place;
};
constexpr size_t kWordsPerTensor = sizeof(TensorWords) / sizeof(int64_t);

class GraphWords {
 public:
  GraphWords(const GgmlHost& host, const Device* device) : host_(host), device_(device) {}

  // Of a graph, or of a single node whose sources are leaves.
  void describe(ggml_cgraph* graph);
  void describe(const ggml_tensor* node);

  // Which tensors' results are there for others when the graph has run.
  std::vector<uint8_t> live() const;

  // Their `live` is 0.
  const std::vector<TensorWords>& words() const { return words_; }
  const std::vector<const ggml_tensor*>& tensors() const { return tensors_; }
  // Where the tensors' data is.
  std::vector<uint64_t> addresses() const;

 private:
  void clear(size_t nodes);
  int64_t leaf(const ggml_tensor* tensor);
  int64_t known(const ggml_tensor* tensor) const;
  int64_t add(const ggml_tensor* tensor, Role role);
  void add_node(const ggml_tensor* node);
  void find_constants();

  const GgmlHost& host_;
  const Device* device_;
  std::vector<TensorWords> words_;
  std::vector<const ggml_tensor*> tensors_;
  std::vector<int32_t> slots_;  // open hashing of tensors_
};

}  // namespace executorch_ggml::devices
