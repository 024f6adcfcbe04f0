#include "node_builder.h"

#include <algorithm>
#include <cmath>

#include "devices.h"
#include "status.h"

namespace executorch_ggml {
namespace {

// ggml takes some sizes as int; the checks before have bounded them.
int narrow(int64_t value) { return static_cast<int>(value); }

uint32_t scale_mode(ScaleMode mode) {
  switch (mode) {
    case ScaleMode::Nearest:
      return GGML_SCALE_MODE_NEAREST;
    case ScaleMode::Bilinear:
      return GGML_SCALE_MODE_BILINEAR;
    default:
      return GGML_SCALE_MODE_BILINEAR | GGML_SCALE_FLAG_ALIGN_CORNERS;
  }
}

}  // namespace

#define gathers_rows(a, rows) self.gathers_rows(a, rows)
#include "build_generated.inc"
#undef gathers_rows

ggml_type storage_type(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return GGML_TYPE_F32;
    case DType::F16:
      return GGML_TYPE_F16;
    case DType::Bf16:
      return GGML_TYPE_BF16;
    case DType::I16:
      return GGML_TYPE_I16;
    case DType::I32:
      return GGML_TYPE_I32;
    case DType::I64:
      return GGML_TYPE_I64;
    case DType::F64:
      return GGML_TYPE_F64;
    default:
      return GGML_TYPE_I8;
  }
}

std::string describe(const ggml_tensor* tensor) {
  if (tensor == nullptr) return "nothing";
  return format("%s[%lld, %lld, %lld, %lld]", ggml_type_name(tensor->type), static_cast<long long>(tensor->ne[0]),
                static_cast<long long>(tensor->ne[1]), static_cast<long long>(tensor->ne[2]),
                static_cast<long long>(tensor->ne[3]));
}

bool NodeBuilder::fail(std::string message) {
  if (error_.empty()) error_ = std::move(message);
  return false;
}

Status NodeBuilder::error(const fb::Node& node, const std::string& message) const {
  const OpInputs spec = op_inputs(node.op_type());
  return Status::error(format("node %s (%s): %s", node.name() ? node.name()->c_str() : "", spec.op ? spec.op : "?",
                              message.c_str()));
}

bool NodeBuilder::check(bool holds, const char* text) {
  if (holds) return true;
  std::string given;
  for (size_t i = 0; node_->inputs() && i < node_->inputs()->size(); ++i) {
    const int index = node_->inputs()->Get(i);
    given += (i ? ", " : "") + describe(index < 0 ? nullptr : values_[index]);
  }
  return fail(std::string(text) + " does not hold for " + given);
}

bool NodeBuilder::all_f32(ggml_tensor* const* inputs) {
  for (size_t i = 0; i < node_->inputs()->size(); ++i) {
    if (inputs[i] && inputs[i]->type != GGML_TYPE_F32) return fail("only f32 runs on devices other than the CPU");
  }
  return true;
}

bool NodeBuilder::dim(int64_t sdim, const char* attr, int64_t* value) {
  const Status status = shapes_.eval(sdim, value);
  return status.ok() || fail(format("attribute %s: %s", attr, status.message().c_str()));
}

bool NodeBuilder::dims(const fb::Ne* ne, const char* attr, Dims* value) {
  if (ne == nullptr) return fail(format("attribute %s is missing", attr));
  const Status status = shapes_.sizes(*ne, value);
  return status.ok() || fail(format("attribute %s: %s", attr, status.message().c_str()));
}

bool NodeBuilder::ints(const flatbuffers::Vector<int64_t>* from, const char* attr, Ints* value) {
  if (from == nullptr || from->size() > 4) return fail(format("attribute %s: expected one to four integers", attr));
  value->size = static_cast<int>(from->size());
  for (int i = 0; i < value->size; ++i) value->at[i] = from->Get(i);
  return true;
}

bool NodeBuilder::gathers_rows(const ggml_tensor* a, const ggml_tensor* rows) const {
  const ggml_tensor* source = rows;
  while (source->op == GGML_OP_RESHAPE || source->op == GGML_OP_CONT || source->op == GGML_OP_VIEW) source = source->src[0];
  const auto found = index_sizes_.find(source);
  return found != index_sizes_.end() && found->second <= a->ne[1] && a->ne[2] == 1 && a->ne[3] == 1 && rows->ne[3] == 1;
}

ggml_tensor* NodeBuilder::view(ggml_tensor* a, const Dims& start, const Ints& step, const Dims& ne) {
  const size_t offset = start[0] * a->nb[0] + start[1] * a->nb[1] + start[2] * a->nb[2] + start[3] * a->nb[3];
  ggml_tensor* made = ggml_view_4d(ctx_, a, ne[0], ne[1], ne[2], ne[3], a->nb[1] * step[1], a->nb[2] * step[2],
                                   a->nb[3] * step[3], offset);
  made->nb[0] = a->nb[0] * step[0];
  return made;
}

ggml_tensor* NodeBuilder::custom_node(Kernel kernel, KernelCallBase* call, std::initializer_list<ggml_tensor*> inputs) {
  call->node = node_->name() ? node_->name()->c_str() : "";
  call->status = status_;
  call->dst = dtype_of(node_->output());
  // ggml wants its sources without gaps; an optional one that is absent is always the last.
  ggml_tensor* sources[kMaxKernelInputs] = {};
  int count = 0;
  for (ggml_tensor* input : inputs) {
    if (input == nullptr) continue;
    call->src[count] = dtype_of(node_->inputs()->Get(count));
    sources[count++] = input;
  }
  return ggml_custom_4d(ctx_, storage_type(call->dst), ne_[0], ne_[1], ne_[2], ne_[3], sources, count, kernel,
                        GGML_N_TASKS_MAX, call);
}

ggml_tensor* NodeBuilder::filled(float value) {
  FillParams params{};
  params.ne = ne_;
  params.value = value;
  params.dtype = dtype_of(node_->output());
  return custom(kernels::fill, params, {});
}

Status NodeBuilder::declared(const fb::Value& value, Dims* ne) const {
  EXECUTORCH_GGML_TRY(shapes_.sizes(value.ne(), ne));
  if (value.dtype() > fb::DType::F64) {
    return Status::error(format("a value has element type %d, unknown here", static_cast<int>(value.dtype())));
  }
  int64_t bytes = static_cast<int64_t>(ggml_type_size(storage_type(static_cast<DType>(value.dtype()))));
  for (int64_t n : *ne) {
    if (__builtin_mul_overflow(bytes, n == 0 ? 1 : n, &bytes)) return Status::error("a value's size overflows 64 bits");
  }
  return {};
}

Status NodeBuilder::leaf(const fb::Value& value, ggml_tensor** tensor) {
  Dims ne{};
  EXECUTORCH_GGML_TRY(declared(value, &ne));
  *tensor = ggml_new_tensor_4d(ctx_, storage_type(static_cast<DType>(value.dtype())), ne[0], ne[1], ne[2], ne[3]);
  return {};
}

Status NodeBuilder::check_input(const fb::Node& node, const InputSpec& spec, int index, ggml_tensor* tensor) const {
  const auto dtype = static_cast<uint32_t>(graph_.values()->Get(index)->dtype());
  if ((spec.dtypes >> dtype & 1u) == 0) {
    return error(node, format("input %s is %s (element type %u), which the op does not take", spec.name, describe(tensor).c_str(), dtype));
  }
  const bool rows = tensor->nb[0] == ggml_type_size(tensor->type);
  const bool fits = spec.layout == Layout::Any || ggml_is_contiguous(tensor) || (spec.layout == Layout::Rows && rows);
  return fits ? Status() : error(node, format("input %s is %s with strides that the op does not take", spec.name, describe(tensor).c_str()));
}

Status NodeBuilder::gather_inputs(const fb::Node& node, const OpInputs& spec, ggml_tensor** inputs) {
  const int given = node.inputs() ? static_cast<int>(node.inputs()->size()) : 0;
  if (given != spec.count) return error(node, format("%d inputs, expected %d", given, spec.count));
  for (int i = 0; i < given; ++i) {
    const int index = node.inputs()->Get(i);
    if (index == -1 && spec.inputs[i].optional) {
      inputs[i] = nullptr;
      continue;
    }
    if (index < 0 || static_cast<size_t>(index) >= values_.size() || values_[index] == nullptr) {
      return error(node, format("input %s is value %d, which nothing has made yet", spec.inputs[i].name, index));
    }
    inputs[i] = values_[index];
    EXECUTORCH_GGML_TRY(check_input(node, spec.inputs[i], index, inputs[i]));
  }
  return {};
}

Status NodeBuilder::check_output(const fb::Node& node, const ggml_tensor* tensor) const {
  const bool same = tensor->type == storage_type(dtype_of(node.output())) && tensor->ne[0] == ne_[0] &&
                    tensor->ne[1] == ne_[1] && tensor->ne[2] == ne_[2] && tensor->ne[3] == ne_[3];
  if (same) return {};
  return error(node, format("gives %s, but [%lld, %lld, %lld, %lld] was declared", describe(tensor).c_str(),
                            static_cast<long long>(ne_[0]), static_cast<long long>(ne_[1]),
                            static_cast<long long>(ne_[2]), static_cast<long long>(ne_[3])));
}

// A value without elements is computed by nobody.
Status NodeBuilder::empty_output(const fb::Node& node, ggml_tensor** tensor) {
  EXECUTORCH_GGML_TRY(leaf(*graph_.values()->Get(node.output()), tensor));
  (*tensor)->data = host_placeholder();
  (*tensor)->buffer = host_buffer();
  return {};
}

// ggml's own kernels are not made for empty inputs; what has elements all the same is a sum over none of them.
bool NodeBuilder::sums_nothing(const fb::Node& node, const OpInputs& spec, ggml_tensor* const* inputs) const {
  if (node.op_type() == fb::Op::Reduce || node.op_type() == fb::Op::Concat) return false;
  return std::any_of(inputs, inputs + spec.count, [](const ggml_tensor* input) { return input && ggml_nelements(input) == 0; });
}

Status NodeBuilder::build(const fb::Node& node) {
  const OpInputs spec = op_inputs(node.op_type());
  if (spec.op == nullptr || node.op() == nullptr) {
    return error(node, format("op #%d is unknown to this runtime; update executorch-ggml", static_cast<int>(node.op_type())));
  }
  if (node.output() < 0 || static_cast<size_t>(node.output()) >= values_.size() || values_[node.output()] != nullptr) {
    return error(node, format("its output, value %d, does not exist or is made already", node.output()));
  }
  ggml_tensor* inputs[8] = {};
  EXECUTORCH_GGML_TRY(gather_inputs(node, spec, inputs));
  ggml_tensor* made = nullptr;
  node_ = &node;
  const Status status = declared(*graph_.values()->Get(node.output()), &ne_);
  if (!status.ok()) return error(node, "its output: " + status.message());
  if (ne_[0] * ne_[1] * ne_[2] * ne_[3] == 0) {
    EXECUTORCH_GGML_TRY(empty_output(node, &made));
  } else {
    error_.clear();
    made = sums_nothing(node, spec, inputs) ? filled(node.op_type() == fb::Op::Mean ? NAN : 0.0f) : dispatch(*this, node, inputs);
    if (made == nullptr) return error(node, error_.empty() ? "ggml refused the call" : error_);
    EXECUTORCH_GGML_TRY(check_output(node, made));
    if (node.op_type() == fb::Op::ToIndex) {
      int64_t size = 0;
      if (dim(node.op_as_ToIndex()->size(), "size", &size)) remember_index(made, size);
    }
  }
  if (node.name()) ggml_set_name(made, node.name()->c_str());
  values_[node.output()] = made;
  return {};
}

}  // namespace executorch_ggml
