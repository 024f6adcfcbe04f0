// A backend that accepts every payload and computes nothing. A program lowered to "NullBackend" takes as long as
// ExecuTorch itself takes for a delegate's call: what is measured above that is the delegate's own.

#include <executorch/runtime/backend/interface.h>

namespace {

using executorch::runtime::ArrayRef;
using executorch::runtime::Backend;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::BackendInterface;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;
using executorch::runtime::Span;

class NullBackend final : public BackendInterface {
 public:
  bool is_available() const override { return true; }

  Result<DelegateHandle*> init(BackendInitContext& /*context*/, FreeableBuffer* processed,
                               ArrayRef<CompileSpec> /*compile_specs*/) const override {
    processed->Free();
    return nullptr;
  }

  Error execute(BackendExecutionContext& /*context*/, DelegateHandle* /*handle*/,
                Span<EValue*> /*args*/) const override {
    return Error::Ok;
  }
};

NullBackend backend;
const Error registered = executorch::runtime::register_backend({"NullBackend", &backend});

}  // namespace
