#include "verify_data.h"

#include <cinttypes>

#include "flatbuffer_verifier.h"
#include "status.h"
#include "tensor_layout.h"

namespace executorch_ggml {
namespace {

Status verify_entry(const ptd::NamedData& entry, const ptd::FlatTensor& root) {
  if (entry.segment_index() >= root.segments()->size()) {
    return Status::error(format("it is in segment %u of %u", entry.segment_index(), root.segments()->size()));
  }
  const ptd::TensorLayout* tensor = entry.tensor_layout();
  if (tensor == nullptr) return {};
  uint64_t bytes = 0;
  EXECUTORCH_GGML_TRY(check_tensor({tensor->scalar_type(), tensor->sizes(), tensor->dim_order()}, &bytes));
  const uint64_t size = root.segments()->Get(entry.segment_index())->size();
  if (bytes <= size) return {};
  return Status::error(
      format("its tensor needs %" PRIu64 " bytes, and segment %u has %" PRIu64, bytes, entry.segment_index(), size));
}

}  // namespace

Status DataNames::verify(const uint8_t* flatbuffer, const FileLayout& layout, DataNames* names) {
  EXECUTORCH_GGML_TRY(verify_flatbuffer<ptd::FlatTensor>(flatbuffer, layout.flatbuffer, "FT01"));
  const ptd::FlatTensor& root = *ptd::GetFlatTensor(flatbuffer);
  if (root.named_data() == nullptr || root.segments() == nullptr) {
    return Status::error("it has no list of names or none of segments");
  }
  for (uint32_t i = 0; i < root.segments()->size(); ++i) {
    const ptd::DataSegment& segment = *root.segments()->Get(i);
    EXECUTORCH_GGML_TRY(check_segment(layout, i, {segment.offset(), segment.size()}));
  }
  for (uint32_t i = 0; i < root.named_data()->size(); ++i) {
    const ptd::NamedData& entry = *root.named_data()->Get(i);
    if (!is_name(entry.key())) return Status::error(format("entry %u has no name, or one that is not text", i));
    const Status status = verify_entry(entry, root);
    if (!status.ok()) return Status::error(entry.key()->str() + ": " + status.message());
    names->entries_.emplace(entry.key()->string_view(), &entry);  // ExecuTorch takes the first of a name too
  }
  return {};
}

const ptd::TensorLayout* DataNames::tensor(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : found->second->tensor_layout();
}

}  // namespace executorch_ggml
