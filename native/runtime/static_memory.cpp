// All memory of a session's runs, taken once when it is loaded.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "session.h"
#include "status.h"

namespace executorch_ggml {
namespace {

constexpr size_t kLine = 64;

size_t rounded(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

template <class T>
size_t size_of(const T* vector) {
  return vector ? vector->size() : 0;
}

struct alignas(kLine) Line {
  unsigned char bytes[kLine] = {};
};

using Bytes = std::vector<Line>;

Bytes zeros(DType dtype, const std::vector<int64_t>& sizes) {
  size_t bytes = ggml_type_size(storage_type(dtype));
  for (const int64_t size : sizes) bytes *= static_cast<size_t>(size);
  return Bytes(bytes / kLine + 1);
}

// Zeros of a port's sizes, which are numbers and no expressions.
class ZeroInputs {
 public:
  explicit ZeroInputs(const fb::Graph& graph) {
    for (size_t i = 0; i < size_of(graph.inputs()); ++i) {
      const fb::Port& port = *graph.inputs()->Get(static_cast<flatbuffers::uoffset_t>(i));
      const auto dtype = static_cast<DType>(graph.values()->Get(port.value())->dtype());
      std::vector<int64_t> sizes;
      for (size_t d = 0; d < size_of(port.shape()); ++d) {
        sizes.push_back(port.shape()->Get(static_cast<flatbuffers::uoffset_t>(d)));
      }
      memory_.push_back(zeros(dtype, sizes));
      sizes_.push_back(std::move(sizes));
      views_.push_back({memory_.back().data(), dtype, nullptr, static_cast<int>(sizes_.back().size())});
    }
    for (size_t i = 0; i < views_.size(); ++i) views_[i].sizes = sizes_[i].data();
  }

  const std::vector<TensorView>& views() const { return views_; }

 private:
  std::vector<Bytes> memory_;
  std::vector<std::vector<int64_t>> sizes_;
  std::vector<TensorView> views_;
};

// Puts states back as they were.
class KeptStates {
 public:
  explicit KeptStates(const std::vector<ggml_tensor*>& states) : states_(states) {
    if (!kHasStates) return;
    for (const ggml_tensor* state : states_) {
      const auto* data = static_cast<const char*>(state->data);
      contents_.emplace_back(data, data + ggml_nbytes(state));
    }
  }
  ~KeptStates() {
    if (!kHasStates) return;
    for (size_t i = 0; i < states_.size(); ++i) {
      std::copy(contents_[i].begin(), contents_[i].end(), static_cast<char*>(states_[i]->data));
    }
  }
  KeptStates(const KeptStates&) = delete;
  KeptStates& operator=(const KeptStates&) = delete;

 private:
  const std::vector<ggml_tensor*>& states_;
  std::vector<std::vector<char>> contents_;
};

}  // namespace

// Sizes that change would need another graph, and other devices have memory of their own.
Status Session::check_static() const {
  if (!devices_.empty()) return Status::error("static memory is the CPU's; load the program without a device");
  for (size_t i = 0; i < size_of(graph_->inputs()); ++i) {
    const fb::Port& port = *graph_->inputs()->Get(static_cast<flatbuffers::uoffset_t>(i));
    for (size_t d = 0; d < size_of(port.shape()); ++d) {
      if (port.shape()->Get(static_cast<flatbuffers::uoffset_t>(d)) >= 0) continue;
      return Status::error(
          format("static memory is for programs of fixed sizes, and dim %zu of input %zu (%s) is not: "
                 "export the model without dynamic_shapes",
                 d, i, inputs_[i].name.c_str()));
    }
  }
  if (size_of(graph_->symbols()) == 0) return {};
  return Status::error("static memory is for programs of fixed sizes, and this one's depend on a number that it takes");
}

// The states are the caller's to lock.
Status Session::run_on_zeros(kernels::ScratchSet* scratch) {
  const kernels::ScratchSet::Use use(scratch);
  const ZeroInputs zero_inputs(*graph_);
  PreparedGraph* prepared = nullptr;
  EXECUTORCH_GGML_TRY(prepare(zero_inputs.views().data(), zero_inputs.views().size(), &prepared));
  if (const ggml_tensor* node = kHasGgmlKernels ? prepared->computed_by_ggml() : nullptr) {
    return Status::error(
        format("static memory is for what this runtime's kernels compute, and %s of %s is computed by "
               "ggml, which allocates in each call",
               ggml_op_desc(node), ggml_get_name(node)));
  }
  std::vector<void*> inputs;
  std::vector<void*> outputs;
  std::vector<Bytes> memory;
  for (const TensorView& input : zero_inputs.views()) inputs.push_back(input.data);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    memory.push_back(zeros(outputs_[i].dtype, prepared->output_sizes(i)));
    outputs.push_back(memory.back().data());
  }
  // Kernels may refuse zeros, as divisors of integers: others need the memory that they need all the same.
  (void)prepared->run(inputs.data(), outputs.data(), nullptr);
  return {};
}

// Measures by one run what kernels need beside the intermediate values, takes memory for both, and runs once more to
// have all of it in use.
Status Session::plan_memory(MemorySource* memory) {
  EXECUTORCH_GGML_TRY(check_static());
  std::unique_lock<Mutex> lock;
  if (kHasStates && state_count() > 0) lock = std::unique_lock<Mutex>(states_->mutex());
  const KeptStates kept(leaves_.states);
  size_t scratch_bytes = 0;
  {
    kernels::ScratchSet measured;
    EXECUTORCH_GGML_TRY(run_on_zeros(&measured));
    scratch_bytes = measured.measured();
  }
  const std::shared_ptr<WorkingMemory> allocated = work_->prepared.working_memory();
  const size_t values_bytes = allocated != nullptr ? rounded(allocated->size()) : 0;
  const size_t bytes = values_bytes + scratch_bytes;
  if (bytes == 0) return {};
  auto* block = static_cast<char*>(memory->allocate(bytes));
  if (block == nullptr) {
    return Status::error(
        format("static memory of %zu bytes is needed (%zu for intermediate values, %zu for kernels), "
               "and the allocator that the program is loaded with has no room for it",
               bytes, values_bytes, scratch_bytes));
  }
  if (allocated != nullptr) {
    ggml_backend_buffer_t buffer = ggml_backend_cpu_buffer_from_ptr(block, values_bytes);
    if (buffer == nullptr) return Status::error("ggml cannot make a buffer");
    work_->prepared.move_to(std::make_shared<WorkingMemory>(buffer));
  }
  scratch_ = std::make_unique<kernels::ScratchSet>(block + values_bytes, scratch_bytes);
  return run_on_zeros(scratch_.get());
}

}  // namespace executorch_ggml
