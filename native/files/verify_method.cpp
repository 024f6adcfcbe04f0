#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <string>
#include <vector>

#include "flatbuffer_verifier.h"
#include "operator_arguments.h"
#include "payload.h"
#include "resource_limits.h"
#include "status.h"
#include "tensor_layout.h"
#include "verify_program.h"

namespace executorch_ggml {
namespace {

using Type = pte::KernelTypes;

constexpr size_t kMostName = 99;  // of an operator: ExecuTorch goes on with no kernel where it is longer

template <class T>
uint32_t length(const flatbuffers::Vector<T>* vector) {
  return vector == nullptr ? 0 : vector->size();
}

bool is_scalar(Type type) { return type == Type::Int || type == Type::Double || type == Type::Bool; }

// Where a tensor's bytes are.
enum class Memory {
  None,      // it gets some in a call: an input, an output, a view
  Planned,   // in one of the method's buffers
  Constant,  // in the file, which must not be written to
};

class MethodVerifier {
 public:
  MethodVerifier(const pte::Program& program, const pte::ExecutionPlan& plan, const DataNames* data)
      : program_(program), plan_(plan), data_(data) {}

  Status verify() {
    EXECUTORCH_GGML_TRY(verify_buffers());
    EXECUTORCH_GGML_TRY(verify_values());
    EXECUTORCH_GGML_TRY(verify_ports());
    EXECUTORCH_GGML_TRY(verify_delegates());
    EXECUTORCH_GGML_TRY(verify_operators());
    EXECUTORCH_GGML_TRY(verify_instructions(&MethodVerifier::note_assigned));
    EXECUTORCH_GGML_TRY(verify_integer_lists());
    return verify_instructions(&MethodVerifier::verify_instruction);
  }

 private:
  // ------------------------------------------------------------------------------------------------------ values

  Status verify_buffers() {
    if (plan_.non_const_buffer_sizes() == nullptr || !is_aligned(plan_.non_const_buffer_sizes())) {
      return Status::error("it has no list of buffer sizes");
    }
    int64_t total = 0;
    for (int64_t size : *plan_.non_const_buffer_sizes()) {
      if (size < 0) return Status::error(format("a buffer of %" PRId64 " bytes", size));
      total = saturating_add(total, size);
    }
    if (static_cast<uint64_t>(total) > available_memory()) {
      return Status::error(
          format("its buffers need %" PRId64 " bytes, more than the %zu of this machine", total, available_memory()));
    }
    for (uint32_t i = 0; i < length(plan_.non_const_buffer_device()); ++i) {
      const int32_t buffer = plan_.non_const_buffer_device()->Get(i)->buffer_idx();
      if (buffer < 0 || static_cast<uint32_t>(buffer) >= plan_.non_const_buffer_sizes()->size()) {
        return Status::error(
            format("a device is given for buffer %d of %u", buffer, plan_.non_const_buffer_sizes()->size()));
      }
    }
    return {};
  }

  Status verify_values() {
    if (plan_.values() == nullptr) return Status::error("it has no list of values");
    const uint32_t count = plan_.values()->size();
    memory_.assign(count, Memory::None);
    empty_.assign(count, false);
    assigned_.assign(count, false);
    computed_.assign(count, false);
    boolean_.assign(count, false);
    last_listed_.assign(count, -1);
    for (uint32_t i = 0; i < count; ++i) {
      const pte::EValue& value = *plan_.values()->Get(i);
      const Status status = verify_value(i, value);
      if (!status.ok()) return Status::error(format("value %u: ", i) + status.message());
    }
    return {};
  }

  // Their items may come after them.
  Status verify_integer_lists() const {
    for (uint32_t i = 0; i < plan_.values()->size(); ++i) {
      const pte::IntList* list = plan_.values()->Get(i)->val_as_IntList();
      for (uint32_t j = 0; j < (list == nullptr ? 0 : list->items()->size()); ++j) {
        const int64_t item = list->items()->Get(j);
        if (!has_value(item) || !is_kind(static_cast<uint32_t>(item), 'I')) {
          return Status::error(format("value %u: item %u of a list of integers is value %" PRId64, i, j, item));
        }
      }
    }
    return {};
  }

  Status verify_value(uint32_t index, const pte::EValue& value) {
    if (value.val_type() != Type::Null && value.val() == nullptr) return Status::error("it is missing");
    switch (value.val_type()) {
      case Type::Null:
      case Type::Int:
      case Type::Double:
      case Type::Bool:
        return {};
      case Type::Tensor:
        return verify_tensor(index, *value.val_as_Tensor());
      case Type::String:
        return exists(value.val_as_String()->string_val());
      case Type::IntList:
        return exists(value.val_as_IntList()->items());
      case Type::DoubleList:
        return exists(value.val_as_DoubleList()->items());
      case Type::BoolList:
        EXECUTORCH_GGML_TRY(exists(value.val_as_BoolList()->items()));
        for (uint8_t item : *value.val_as_BoolList()->items()) {
          if (item > 1) return Status::error(format("a boolean of %u", item));
        }
        return {};
      case Type::TensorList:
        return verify_list(index, value.val_as_TensorList()->items(), /*optional=*/false);
      case Type::OptionalTensorList:
        return verify_list(index, value.val_as_OptionalTensorList()->items(), /*optional=*/true);
      default:
        return Status::error(format("type #%d, which ExecuTorch has not", static_cast<int>(value.val_type())));
    }
  }

  template <class Vector>
  static Status exists(const Vector* vector) {
    if (vector == nullptr) return Status::error("its contents are missing");
    if constexpr (sizeof(*vector->data()) == sizeof(int64_t)) {
      if (!is_aligned(vector)) return Status::error("its contents are not aligned");
    }
    return {};
  }

  // ExecuTorch copies the items where it meets the list: they must come before it.
  Status verify_list(uint32_t index, const flatbuffers::Vector<int32_t>* items, bool optional) const {
    EXECUTORCH_GGML_TRY(exists(items));
    for (uint32_t i = 0; i < items->size(); ++i) {
      const int32_t item = items->Get(i);
      if (optional && item == -1) continue;
      const bool known = item >= 0 && static_cast<uint32_t>(item) < index;
      const Type type = known ? type_of(static_cast<uint32_t>(item)) : Type::NONE;
      if (type != Type::Tensor && !(optional && type == Type::Null)) {
        return Status::error(format("item %u of a list of tensors is value %d, which is none before it", i, item));
      }
    }
    return {};
  }

  Status verify_tensor(uint32_t index, const pte::Tensor& tensor) {
    uint64_t bytes = 0;
    EXECUTORCH_GGML_TRY(check_tensor({tensor.scalar_type(), tensor.sizes(), tensor.dim_order()}, &bytes));
    if (tensor.storage_offset() != 0) return Status::error(format("a storage offset of %d", tensor.storage_offset()));
    if (tensor.shape_dynamism() != pte::TensorShapeDynamism::STATIC &&
        tensor.shape_dynamism() != pte::TensorShapeDynamism::DYNAMIC_BOUND) {
      return Status::error("sizes without bounds, which ExecuTorch has no memory for");
    }
    if (bytes == UINT64_MAX && tensor.shape_dynamism() == pte::TensorShapeDynamism::STATIC) {
      return Status::error("sizes whose product is beyond 64 bits");
    }
    empty_[index] = bytes == 0;
    const pte::ExtraTensorInfo* extra = tensor.extra_tensor_info();
    const bool external = extra != nullptr && extra->location() == pte::TensorDataLocation::EXTERNAL;
    if (external) EXECUTORCH_GGML_TRY(verify_external(tensor, *extra));
    if (tensor.allocation_info() != nullptr) {
      memory_[index] = Memory::Planned;
      EXECUTORCH_GGML_TRY(verify_planned(*tensor.allocation_info(), bytes));
      return tensor.data_buffer_idx() == 0 || external ? Status() : verify_first(tensor.data_buffer_idx(), bytes);
    }
    if (external || tensor.data_buffer_idx() > 0) memory_[index] = Memory::Constant;
    return external || tensor.data_buffer_idx() == 0 ? Status() : verify_constant(tensor.data_buffer_idx(), bytes);
  }

  Status verify_external(const pte::Tensor& tensor, const pte::ExtraTensorInfo& extra) const {
    if (!is_name(extra.fully_qualified_name())) return Status::error("it is in a data file, under no name");
    const std::string_view name = extra.fully_qualified_name()->string_view();
    if (data_ == nullptr || !data_->has(name)) return {};  // ExecuTorch says so where it is used
    const ptd::TensorLayout* layout = data_->tensor(name);
    const auto same = [](const auto& a, const auto& b) {
      return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
    };
    if (layout == nullptr || layout->scalar_type() != tensor.scalar_type() ||
        !same(*layout->sizes(), *tensor.sizes()) || !same(*layout->dim_order(), *tensor.dim_order())) {
      return Status::error("the data file has " + std::string(name) + " with another type or shape");
    }
    return {};
  }

  Status verify_planned(const pte::AllocationDetails& place, uint64_t bytes) const {
    const uint64_t offset = uint64_t{place.memory_offset_high()} << 32 | place.memory_offset_low();
    // The first size stands for constants.
    if (place.memory_id() == 0 || place.memory_id() >= plan_.non_const_buffer_sizes()->size()) {
      return Status::error(
          format("it is in buffer %u of %u", place.memory_id(), length(plan_.non_const_buffer_sizes())));
    }
    const auto size = static_cast<uint64_t>(plan_.non_const_buffer_sizes()->Get(place.memory_id()));
    if (offset <= size && bytes <= size - offset) return {};
    return Status::error(
        format("%" PRIu64 " bytes from byte %" PRIu64 " on, in a buffer of %" PRIu64, bytes, offset, size));
  }

  Status verify_part(const pte::SubsegmentOffsets* part, uint32_t index, uint64_t bytes) const {
    const auto* offsets = part == nullptr ? nullptr : part->offsets();
    if (index >= length(offsets)) return Status::error(format("it is constant %u of %u", index, length(offsets)));
    const uint64_t size = program_.segments()->Get(part->segment_index())->size();
    const uint64_t offset = offsets->Get(index);
    if (bytes <= size - offset) return {};
    return Status::error(
        format("%" PRIu64 " bytes from byte %" PRIu64 " on, in a segment of %" PRIu64, bytes, offset, size));
  }

  Status verify_first(uint32_t index, uint64_t bytes) const {
    const auto* parts = program_.mutable_data_segments();
    return verify_part(length(parts) == 0 ? nullptr : parts->Get(0), index, bytes);
  }

  Status verify_constant(uint32_t index, uint64_t bytes) const {
    const auto* buffers = program_.constant_buffer();
    if (length(buffers) == 0) return verify_part(program_.constant_segment(), index, bytes);
    if (index >= buffers->size()) return Status::error(format("it is constant %u of %u", index, buffers->size()));
    const uint32_t size = length(buffers->Get(index)->storage());
    if (bytes <= size) return {};
    return Status::error(format("%" PRIu64 " bytes, and constant %u has %u", bytes, index, size));
  }

  // ------------------------------------------------------------------------------------- inputs, outputs, delegates

  Status verify_ports() {
    if (plan_.inputs() == nullptr || plan_.outputs() == nullptr) {
      return Status::error("it has no list of inputs or none of outputs");
    }
    const auto verify = [&](const flatbuffers::Vector<int32_t>& ports, const char* what) -> Status {
      for (uint32_t i = 0; i < ports.size(); ++i) {
        const int32_t value = ports.Get(i);
        const Type type = has_value(value) ? type_of(static_cast<uint32_t>(value)) : Type::NONE;
        if (type != Type::Null && type != Type::Tensor && type != Type::String && !is_scalar(type)) {
          return Status::error(format("%s %u is value %d, which is no tensor, number or text", what, i, value));
        }
        assigned_[static_cast<uint32_t>(value)] = true;
      }
      return {};
    };
    EXECUTORCH_GGML_TRY(verify(*plan_.inputs(), "input"));
    for (int32_t input : *plan_.inputs()) {
      if (memory_[static_cast<uint32_t>(input)] == Memory::Constant) {
        return Status::error(format("an input is value %d, which is a constant", input));
      }
    }
    return verify(*plan_.outputs(), "output");
  }

  Status verify_delegates() const {
    if (plan_.delegates() == nullptr) return Status::error("it has no list of delegates");
    for (uint32_t i = 0; i < plan_.delegates()->size(); ++i) {
      const Status status = verify_delegate(*plan_.delegates()->Get(i));
      if (!status.ok()) return Status::error(format("delegate %u: ", i) + status.message());
    }
    return {};
  }

  Status verify_delegate(const pte::BackendDelegate& delegate) const {
    if (!is_name(delegate.id()) || delegate.processed() == nullptr) {
      return Status::error("its backend's name or its payload is missing");
    }
    for (uint32_t i = 0; i < length(delegate.compile_specs()); ++i) {
      const pte::CompileSpec& spec = *delegate.compile_specs()->Get(i);
      if (!is_name(spec.key()) || spec.value() == nullptr) return Status::error("a compile spec is incomplete");
    }
    const uint32_t index = delegate.processed()->index();
    const auto* inlined = program_.backend_delegate_data();
    switch (delegate.processed()->location()) {
      case pte::DataLocation::INLINE:
        if (index < length(inlined) && inlined->Get(index)->data() != nullptr) return {};
        return Status::error(format("its payload is number %u of %u in the FlatBuffer", index, length(inlined)));
      case pte::DataLocation::SEGMENT:
        if (index < length(program_.segments())) return {};
        return Status::error(format("its payload is segment %u of %u", index, length(program_.segments())));
      default:
        return Status::error("its payload is nowhere");
    }
  }

  // -------------------------------------------------------------------------------------------------- instructions

  Status verify_operators() {
    for (uint32_t i = 0; i < length(plan_.operators()); ++i) {
      const pte::Operator& op = *plan_.operators()->Get(i);
      if (!is_name(op.name()) || !is_name(op.overload())) {
        return Status::error(format("operator %u has no name, or one that is not text", i));
      }
      const std::string overload = op.overload()->str();
      const std::string name = op.name()->str() + (overload.empty() ? "" : ".") + overload;
      if (name.size() > kMostName) {
        return Status::error(
            format("operator %u has a name of %zu bytes, expected at most %zu", i, name.size(), kMostName));
      }
      operators_.push_back({name, operator_arguments(name), name == "executorch_prim::et_view.default"});
    }
    return {};
  }

  // Calls verify(chain, index) for every instruction.
  Status verify_instructions(Status (MethodVerifier::*verify)(const pte::Chain&, uint32_t)) {
    if (length(plan_.chains()) == 0) return Status::error("it has no instructions");
    for (const pte::Chain* chain : *plan_.chains()) {
      if (chain->instructions() == nullptr) return Status::error("its instructions are missing");
      for (uint32_t i = 0; i < chain->instructions()->size(); ++i) {
        const Status status = (this->*verify)(*chain, i);
        if (!status.ok()) return Status::error(format("instruction %u: ", i) + status.message());
      }
    }
    return {};
  }

  // Notes the values that instructions set, whose types or memory are known only when the method runs.
  Status note_assigned(const pte::Chain& chain, uint32_t index) {
    const pte::Instruction& instruction = *chain.instructions()->Get(index);
    if (instruction.instr_args() == nullptr) return Status::error("it is missing");
    if (const pte::MoveCall* move = instruction.instr_args_as_MoveCall()) {
      EXECUTORCH_GGML_TRY(check_value(move->move_from()));
      EXECUTORCH_GGML_TRY(check_value(move->move_to()));
      const auto from = static_cast<uint32_t>(move->move_from());
      const auto to = static_cast<uint32_t>(move->move_to());
      assigned_[to] = computed_[to] = true;
      if (memory_[from] == Memory::Constant) memory_[to] = Memory::Constant;
      if (boolean_[from]) boolean_[to] = true;
    }
    const pte::KernelCall* call = instruction.instr_args_as_KernelCall();
    if (call == nullptr) return {};
    EXECUTORCH_GGML_TRY(check_call(*call));
    const Operator& op = operators_[static_cast<uint32_t>(call->op_index())];
    for (uint32_t i = 0; op.arguments != nullptr && i < call->args()->size(); ++i) {
      const auto value = static_cast<uint32_t>(call->args()->Get(i));
      if (writes_scalar(op.arguments[i])) computed_[value] = true;
      if (op.arguments[i] == 'O') boolean_[value] = true;
      if (op.is_view && writes_tensor(op.arguments[i])) assigned_[value] = true;
    }
    return {};
  }

  Status check_value(int64_t index) const {
    if (has_value(index)) return {};
    return Status::error(format("it names value %" PRId64 " of %zu", index, memory_.size()));
  }

  Status check_arguments(const flatbuffers::Vector<int32_t>* arguments) const {
    if (arguments == nullptr) return Status::error("its arguments are missing");
    for (int32_t value : *arguments) EXECUTORCH_GGML_TRY(check_value(value));
    return {};
  }

  Status check_call(const pte::KernelCall& call) const {
    EXECUTORCH_GGML_TRY(check_arguments(call.args()));
    if (call.op_index() < 0 || static_cast<size_t>(call.op_index()) >= operators_.size()) {
      return Status::error(format("it calls operator %d of %zu", call.op_index(), operators_.size()));
    }
    const Operator& op = operators_[static_cast<uint32_t>(call.op_index())];
    if (op.arguments == nullptr || std::strlen(op.arguments) == call.args()->size()) return {};
    return Status::error(
        format("%s with %u arguments, expected %zu", op.name.c_str(), call.args()->size(), std::strlen(op.arguments)));
  }

  Status verify_instruction(const pte::Chain& chain, uint32_t index) {
    using Arguments = pte::InstructionArguments;
    const pte::Instruction& instruction = *chain.instructions()->Get(index);
    switch (instruction.instr_args_type()) {
      case Arguments::KernelCall:
        return verify_kernel_call(*instruction.instr_args_as_KernelCall(), index);
      case Arguments::DelegateCall:
        return verify_delegate_call(*instruction.instr_args_as_DelegateCall(), index);
      case Arguments::MoveCall:
        return verify_move(*instruction.instr_args_as_MoveCall(), index);
      case Arguments::JumpFalseCall:
        return verify_jump(*instruction.instr_args_as_JumpFalseCall(), index, chain.instructions()->size());
      case Arguments::FreeCall:
        return verify_free(*instruction.instr_args_as_FreeCall());
      default:
        return Status::error(format("type #%d, which ExecuTorch has not", int(instruction.instr_args_type())));
    }
  }

  Status verify_kernel_call(const pte::KernelCall& call, uint32_t index) {
    const Operator& op = operators_[static_cast<uint32_t>(call.op_index())];
    for (uint32_t i = 0; i < call.args()->size(); ++i) {
      const auto value = static_cast<uint32_t>(call.args()->Get(i));
      last_listed_[value] = index;
      Status status = check_memory(value);
      if (status.ok() && op.arguments != nullptr) status = check_argument(value, op.arguments[i]);
      if (!status.ok()) return Status::error(op.name + format(": argument %u: ", i) + status.message());
    }
    return {};
  }

  Status check_argument(uint32_t value, char letter) const {
    if (!is_kind(value, letter)) {
      if (boolean_[value]) {
        return Status::error(format("value %u is set to a boolean, which the operator does not take", value));
      }
      return Status::error(
          format("value %u is of type #%d, which the operator does not take", value, static_cast<int>(type_of(value))));
    }
    if (!writes_tensor(letter)) return {};
    bool constant = memory_[value] == Memory::Constant;
    for (int32_t item : items_of(value))
      constant = constant || memory_[static_cast<uint32_t>(item)] == Memory::Constant;
    return constant ? Status::error(format("value %u is a constant, which the operator would write to", value))
                    : Status();
  }

  Status verify_delegate_call(const pte::DelegateCall& call, uint32_t index) {
    EXECUTORCH_GGML_TRY(check_arguments(call.args()));
    if (call.delegate_index() < 0 || static_cast<uint32_t>(call.delegate_index()) >= plan_.delegates()->size()) {
      return Status::error(format("it calls delegate %d of %u", call.delegate_index(), plan_.delegates()->size()));
    }
    for (int32_t argument : *call.args()) {
      last_listed_[static_cast<uint32_t>(argument)] = index;
      EXECUTORCH_GGML_TRY(check_memory(static_cast<uint32_t>(argument)));
    }
    return {};
  }

  // Fails for a tensor that no instruction and no caller gives memory.
  Status check_memory(uint32_t value) const {
    const auto has_memory = [&](uint32_t index) {
      return type_of(index) != Type::Tensor || memory_[index] != Memory::None || empty_[index] || assigned_[index];
    };
    bool all = has_memory(value);
    for (int32_t item : items_of(value)) all = all && has_memory(static_cast<uint32_t>(item));
    return all ? Status() : Status::error(format("value %u is a tensor without memory", value));
  }

  Status verify_move(const pte::MoveCall& call, uint32_t index) {
    const auto from = static_cast<uint32_t>(call.move_from());
    const auto to = static_cast<uint32_t>(call.move_to());
    last_listed_[to] = index;
    const bool numbers = is_scalar(type_of(from)) && is_scalar(type_of(to));
    bool same = numbers || type_of(from) == type_of(to);
    if (same && type_of(from) == Type::Tensor) {
      const pte::Tensor& a = *plan_.values()->Get(from)->val_as_Tensor();
      const pte::Tensor& b = *plan_.values()->Get(to)->val_as_Tensor();
      same = a.scalar_type() == b.scalar_type() && a.sizes()->size() == b.sizes()->size();
    }
    return same ? Status() : Status::error(format("it moves value %u to value %u, which is of another type", from, to));
  }

  Status verify_jump(const pte::JumpFalseCall& call, uint32_t index, uint32_t count) const {
    EXECUTORCH_GGML_TRY(check_value(call.cond_value_index()));
    const auto condition = static_cast<uint32_t>(call.cond_value_index());
    const pte::Tensor* tensor = plan_.values()->Get(condition)->val_as_Tensor();
    EXECUTORCH_GGML_TRY(check_memory(condition));
    if (tensor == nullptr ? !is_kind(condition, 'B') : tensor->scalar_type() != pte::ScalarType::BOOL) {
      return Status::error(format("its condition is value %u, which is no boolean", condition));
    }
    const int32_t target = call.destination_instruction();
    if (target < 0 || static_cast<uint32_t>(target) > count) {
      return Status::error(format("it jumps to instruction %d of %u", target, count));
    }
    // Where nothing in a loop sets its condition it never ends.
    if (static_cast<uint32_t>(target) > index || last_listed_[condition] >= target) return {};
    return Status::error(
        format("it jumps back to instruction %d, and nothing from there on sets its condition", target));
  }

  Status verify_free(const pte::FreeCall& call) const {
    EXECUTORCH_GGML_TRY(check_value(call.value_index()));
    const auto value = static_cast<uint32_t>(call.value_index());
    if (type_of(value) == Type::Tensor && memory_[value] == Memory::None) return {};
    return Status::error(format("it frees value %u, which is no tensor with memory of its own", value));
  }

  // ------------------------------------------------------------------------------------------------------- helpers

  bool has_value(int64_t index) const { return index >= 0 && index < static_cast<int64_t>(memory_.size()); }

  Type type_of(uint32_t index) const { return plan_.values()->Get(index)->val_type(); }

  bool is_kind(uint32_t value, char letter) const {
    const Type type = type_of(value);
    if (boolean_[value] && !is_argument(letter, static_cast<uint8_t>(Type::Bool))) return false;
    if (computed_[value] && is_scalar(type))
      return is_argument(letter, static_cast<uint8_t>(Type::Int)) ||
             is_argument(letter, static_cast<uint8_t>(Type::Double)) ||
             is_argument(letter, static_cast<uint8_t>(Type::Bool));
    return is_argument(letter, static_cast<uint8_t>(type));
  }

  // The values in a list of tensors.
  std::vector<int32_t> items_of(uint32_t value) const {
    const pte::EValue& entry = *plan_.values()->Get(value);
    const flatbuffers::Vector<int32_t>* items = nullptr;
    if (const auto* list = entry.val_as_TensorList()) items = list->items();
    if (const auto* list = entry.val_as_OptionalTensorList()) items = list->items();
    std::vector<int32_t> present;
    for (uint32_t i = 0; i < length(items); ++i) {
      if (items->Get(i) >= 0) present.push_back(items->Get(i));
    }
    return present;
  }

  struct Operator {
    std::string name;
    const char* arguments;  // see operator_arguments(); null: unknown
    bool is_view;           // its output gets its input's memory
  };

  const pte::Program& program_;
  const pte::ExecutionPlan& plan_;
  const DataNames* data_;
  std::vector<Operator> operators_;
  std::vector<Memory> memory_;        // of each value
  std::vector<bool> empty_;           // tensors without elements
  std::vector<bool> assigned_;        // values that get their memory from a call or from the caller
  std::vector<bool> computed_;        // scalars that are set by instructions
  std::vector<bool> boolean_;         // those that are a comparison's result at some time
  std::vector<int64_t> last_listed_;  // the last instruction that may have set a value; -1: none
};

}  // namespace

Status verify_method(const pte::Program& program, const pte::ExecutionPlan& plan, const DataNames* data) {
  return MethodVerifier(program, plan, data).verify();
}

}  // namespace executorch_ggml
