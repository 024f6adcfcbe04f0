#include "recorder.h"

#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

namespace executorch_ggml {
namespace {

namespace et = ::executorch::runtime;
using ::executorch::aten::DimOrderType;
using ::executorch::aten::ScalarType;
using ::executorch::aten::SizesType;
using ::executorch::aten::StridesType;
using ::executorch::aten::Tensor;
using ::executorch::aten::TensorImpl;

struct FreeDump {
  void operator()(void* dump) const { std::free(dump); }
};

template <class Half>
std::vector<float> to_floats(const Tensor& tensor) {
  const Half* elements = tensor.const_data_ptr<Half>();
  return {elements, elements + (elements == nullptr ? 0 : tensor.numel())};
}

}  // namespace

et::Result<bool> Tracer::log_evalue(const et::EValue& value, et::LoggedEValueType type) {
  if (!value.isTensor()) return ETDumpGen::log_evalue(value, type);
  const Tensor& tensor = value.toTensor();
  const ScalarType dtype = tensor.scalar_type();
  if (dtype != ScalarType::Half && dtype != ScalarType::BFloat16) return ETDumpGen::log_evalue(value, type);
  std::vector<float> floats = dtype == ScalarType::Half ? to_floats<::executorch::aten::Half>(tensor)
                                                        : to_floats<::executorch::aten::BFloat16>(tensor);
  TensorImpl impl(ScalarType::Float, tensor.dim(), const_cast<SizesType*>(tensor.sizes().data()), floats.data(),
                  const_cast<DimOrderType*>(tensor.dim_order().data()),
                  const_cast<StridesType*>(tensor.strides().data()));
  return ETDumpGen::log_evalue(et::EValue(Tensor(&impl)), type);
}

et::Result<size_t> ValueSink::write(const void* data, size_t size) {
  const size_t offset = bytes_.size();
  try {
    bytes_.append(static_cast<const char*>(data), size);
  } catch (const std::bad_alloc&) {
    return et::Error::MemoryAllocationFailed;
  }
  return offset;
}

Recorder::Recorder(bool values) {
  if (!values) return;
  etdump_.set_data_sink(&values_);
  etdump_.set_event_tracer_debug_level(et::EventTracerDebugLogLevel::kIntermediateOutputs);
}

Recording Recorder::take() {
  const std::lock_guard<Mutex> lock(in_use_);
  const ::executorch::etdump::ETDumpResult dump = etdump_.get_etdump_data();
  const std::unique_ptr<void, FreeDump> owned(dump.buf);
  Recording recording;
  if (dump.buf != nullptr) recording.etdump.assign(static_cast<const char*>(dump.buf), dump.size);
  recording.values = values_.take();
  etdump_.reset();
  return recording;
}

}  // namespace executorch_ggml
