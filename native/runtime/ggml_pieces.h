// Nodes that ggml's own CPU kernels compute, in pieces on our threads.
#pragma once

#include "ggml.h"

namespace executorch_ggml {

constexpr int kMostCutSources = 3;

// How a node's result is divided: along a dim of it, and with it along one of each source.
struct Cut {
  int dim = -1;                                   // -1: the node is computed whole
  int unit = 1;                                   // elements of it that stay together
  int of_source[kMostCutSources] = {-1, -1, -1};  // -1: a piece reads all of it
};

// Along the dim with the most to divide.
Cut cut_of(const ggml_tensor* node);

struct GgmlParams {
  const ggml_tensor* node;  // the op and its parameters
  Cut cut;
};

// The kernel of a custom node with the sources and the result of `node`: each piece is a graph of one node on parts of
// them, computed by ggml on the calling thread.
void compute_by_ggml(ggml_tensor* dst, int ith, int nth, void* call);

}  // namespace executorch_ggml
