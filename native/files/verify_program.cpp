#include "verify_program.h"

#include <cinttypes>

#include "flatbuffer_verifier.h"
#include "payload.h"
#include "status.h"

namespace executorch_ggml {
namespace {

Status verify_segments(const pte::Program& program, const FileLayout& layout) {
  if (program.segments() == nullptr) return {};
  for (uint32_t i = 0; i < program.segments()->size(); ++i) {
    const pte::DataSegment& segment = *program.segments()->Get(i);
    EXECUTORCH_GGML_TRY(check_segment(layout, i, {segment.offset(), segment.size()}));
  }
  return {};
}

Status verify_subsegments(const pte::Program& program, const pte::SubsegmentOffsets& part, const char* what) {
  const uint32_t segments = program.segments() == nullptr ? 0 : program.segments()->size();
  if (part.segment_index() >= segments) {
    return Status::error(format("%s are in segment %u of %u", what, part.segment_index(), segments));
  }
  if (!is_aligned(part.offsets())) return Status::error(format("%s have offsets that are not aligned", what));
  const uint64_t size = program.segments()->Get(part.segment_index())->size();
  for (uint32_t i = 0; i < (part.offsets() == nullptr ? 0 : part.offsets()->size()); ++i) {
    if (part.offsets()->Get(i) > size) {
      return Status::error(format("%s: number %u begins at byte %" PRIu64 " of a segment of %" PRIu64, what, i,
                                  part.offsets()->Get(i), size));
    }
  }
  return {};
}

Status verify_constants(const pte::Program& program) {
  const pte::SubsegmentOffsets* constants = program.constant_segment();
  // The first offset stands for tensors that are not constant: alone it needs no segment.
  if (constants != nullptr && constants->offsets() != nullptr && constants->offsets()->size() > 1) {
    if (program.constant_buffer() != nullptr && program.constant_buffer()->size() > 0) {
      return Status::error("its constants are both in the FlatBuffer and in a segment");
    }
    EXECUTORCH_GGML_TRY(verify_subsegments(program, *constants, "constants"));
  }
  const auto* mutables = program.mutable_data_segments();
  for (uint32_t i = 0; i < (mutables == nullptr ? 0 : mutables->size()); ++i) {
    EXECUTORCH_GGML_TRY(verify_subsegments(program, *mutables->Get(i), "first values of buffers"));
  }
  return {};
}

Status verify_names(const pte::Program& program) {
  if (program.named_data() == nullptr) return {};
  if (program.segments() == nullptr) return Status::error("it has named data and no segments");
  for (uint32_t i = 0; i < program.named_data()->size(); ++i) {
    const pte::NamedData& entry = *program.named_data()->Get(i);
    if (!is_name(entry.key())) return Status::error(format("named data %u has no name, or one that is not text", i));
    if (entry.segment_index() >= program.segments()->size()) {
      return Status::error(format("named data %s is in segment %u of %u", entry.key()->c_str(), entry.segment_index(),
                                  program.segments()->size()));
    }
  }
  return {};
}

}  // namespace

Status verify_program(const uint8_t* flatbuffer, const FileLayout& layout, const DataNames* data) {
  EXECUTORCH_GGML_TRY(verify_flatbuffer<pte::Program>(flatbuffer, layout.flatbuffer, "ET12"));
  const pte::Program& program = *pte::GetProgram(flatbuffer);
  EXECUTORCH_GGML_TRY(verify_segments(program, layout));
  EXECUTORCH_GGML_TRY(verify_constants(program));
  EXECUTORCH_GGML_TRY(verify_names(program));
  if (program.execution_plan() == nullptr) return Status::error("it has no list of methods");
  for (uint32_t i = 0; i < program.execution_plan()->size(); ++i) {
    const pte::ExecutionPlan& plan = *program.execution_plan()->Get(i);
    if (!is_name(plan.name())) return Status::error(format("method %u has no name, or one that is not text", i));
    const Status status = verify_method(program, plan, data);
    if (!status.ok()) return Status::error("method " + plan.name()->str() + ": " + status.message());
  }
  return {};
}

}  // namespace executorch_ggml
