// A program's graphs: one for each target that it was made for.
#pragma once

#include "payload.h"

namespace executorch_ggml {

// Whether each graph is for a target of its own, known here. Their ports must be checked to refer to values.
Status check_targets(const fb::Program& program);

// Whether all graphs take and give the same: names, element types and sizes. Their expressions must be checked.
Status check_same_ports(const fb::Program& program);

// The one for a target, or the CPU's in a program that was not made for it.
const fb::Graph& graph_for(const fb::Program& program, Target target);

}  // namespace executorch_ggml
