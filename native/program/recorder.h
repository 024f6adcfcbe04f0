// ExecuTorch's ETDump of a program's runs.
#pragma once

#include <executorch/devtools/etdump/etdump_flatcc.h>

#include <string>
#include <utility>

#include "fork.h"

namespace executorch_ggml {

// What a recorder has taken: the ETDump, and the values that it refers to.
struct Recording {
  std::string etdump;
  std::string values;
};

// Keeps values, however many: ExecuTorch's own buffers have a fixed size, and end the process where it is too small.
class ValueSink final : public ::executorch::etdump::DataSinkBase {
 public:
  ::executorch::runtime::Result<size_t> write(const void* data, size_t size) override;
  size_t get_used_bytes() const override { return bytes_.size(); }
  std::string take() { return std::exchange(bytes_, {}); }

 private:
  std::string bytes_;
};

// ExecuTorch's recorder, with tensors of half types as float: it would write a damaged ETDump of these.
class Tracer final : public ::executorch::etdump::ETDumpGen {
 public:
  ::executorch::runtime::Result<bool> log_evalue(const ::executorch::runtime::EValue& value,
                                                 ::executorch::runtime::LoggedEValueType type) override;
};

// Records all methods of a program, one run at a time.
class Recorder {
 public:
  // With `values` those of nodes are recorded too.
  explicit Recorder(bool values);

  ::executorch::runtime::EventTracer* tracer() { return &etdump_; }

  // Held during a run.
  Mutex& in_use() { return in_use_; }

  // What was recorded since the last call.
  Recording take();

 private:
  Mutex in_use_;
  ValueSink values_;
  Tracer etdump_;
};

}  // namespace executorch_ggml
