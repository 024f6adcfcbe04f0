// The Python face of the native runtime: programs run on numpy or DLPack arrays, without ExecuTorch.

#include "session.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <optional>
#include <stdexcept>

#include "cpu_library.h"
#include "gguf.h"
#include "gguf_file.h"
#include "quantize.h"
#include "rpc.h"
#include "signals.h"
#include "status.h"

namespace nb = nanobind;

namespace executorch_ggml {
namespace {

using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

[[noreturn]] void raise(const Status& status) { throw std::runtime_error(readable(status.message())); }

// An array where it lies; anything that would need a copy is refused, with the reason.
Array to_array(nb::handle object, const std::string& what) {
  Array array;
  if (nb::try_cast(object, array, /*convert=*/false)) return array;
  nb::ndarray<nb::ro> any;
  if (!nb::try_cast(object, any, /*convert=*/false)) {
    const std::string type = nb::cast<std::string>(nb::str(object.type()));
    raise(Status::error(what + " is a " + type +
                        ", expected a numpy array, a torch tensor or another that speaks DLPack"));
  }
  if (any.device_type() != nb::device::cpu::value)
    raise(Status::error(what + " is not in the CPU's memory; move it there with .cpu()"));
  raise(Status::error(what + " is not contiguous; call .contiguous() or numpy.ascontiguousarray on it"));
}

bool dtype_of(const nb::dlpack::dtype& type, DType* dtype) {
  using Code = nb::dlpack::dtype_code;
  const auto code = static_cast<Code>(type.code);
  const struct {
    Code code;
    int bits;
    DType dtype;
  } kTypes[] = {{Code::Float, 32, DType::F32}, {Code::Float, 16, DType::F16}, {Code::Bfloat, 16, DType::Bf16},
                {Code::Float, 64, DType::F64}, {Code::Int, 8, DType::I8},     {Code::Int, 16, DType::I16},
                {Code::Int, 32, DType::I32},   {Code::Int, 64, DType::I64},   {Code::Bool, 8, DType::Bool},
                {Code::UInt, 8, DType::U8}};
  for (const auto& known : kTypes) {
    if (known.code == code && known.bits == type.bits && type.lanes == 1) {
      *dtype = known.dtype;
      return true;
    }
  }
  return false;
}

nb::dlpack::dtype dlpack_type(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  static constexpr struct {
    Code code;
    uint8_t bits;
  } kTypes[] = {{Code::Float, 32}, {Code::Float, 16}, {Code::Bfloat, 16}, {Code::Int, 8},  {Code::Int, 16},
                {Code::Int, 32},   {Code::Int, 64},   {Code::Bool, 8},    {Code::UInt, 8}, {Code::Float, 64}};
  const auto& type = kTypes[static_cast<int>(dtype)];
  return {static_cast<uint8_t>(type.code), type.bits, 1};
}

// Constants as arrays that Python keeps alive, and in GGUF files.
class Arrays : public ConstantSource {
 public:
  Arrays(const nb::dict& arrays, const std::vector<std::string>& files) {
    for (const std::string& path : files) {
      std::shared_ptr<const GgufFile> file;
      const Status status = GgufFile::open(path, &file);
      if (!status.ok()) raise(status);
      files_.add(std::move(file));
    }
    for (auto [key, value] : arrays) {
      const std::string name = nb::cast<std::string>(key);
      arrays_.emplace(name, to_array(value, "constant " + name));
    }
  }

  Status find(const std::string& key, const ggml_tensor* expected, const void** data, size_t* size) override {
    if (GgufFiles::is_key(key)) {
      std::shared_ptr<const GgufFile> file;  // files_ keeps it
      return files_.find(key, expected, data, size, &file);
    }
    const auto found = arrays_.find(key);
    if (found == arrays_.end()) {
      return Status::error(format("constant %s: not among the %zu constants given; pass it under this key", key.c_str(),
                                  arrays_.size()));
    }
    *data = found->second.data();
    *size = found->second.nbytes();
    return {};
  }

 private:
  std::map<std::string, Array> arrays_;
  GgufFiles files_;
};

// Outputs as fresh memory that becomes numpy arrays.
class NewArrays : public OutputSink {
 public:
  struct Output {
    DType dtype;
    std::vector<size_t> sizes;
    void* data;
  };

  ~NewArrays() override {
    for (Output& output : outputs_) std::free(output.data);
  }

  Status place(size_t, DType dtype, const std::vector<int64_t>& sizes, void** data) override {
    size_t bytes = ggml_type_size(storage_type(dtype));
    for (int64_t size : sizes) bytes *= static_cast<size_t>(size);
    const size_t rounded = (bytes + 63) / 64 * 64;
    *data = std::aligned_alloc(64, rounded == 0 ? 64 : rounded);
    if (*data == nullptr) return Status::error(format("no memory for an output of %zu bytes", bytes));
    outputs_.push_back({dtype, {sizes.begin(), sizes.end()}, *data});
    return {};
  }

  nb::list take() {
    nb::list list;
    for (Output& output : outputs_) {
      nb::capsule owner(output.data, [](void* data) noexcept { std::free(data); });
      void* data = output.data;
      output.data = nullptr;
      nb::ndarray<> array(data, output.sizes.size(), output.sizes.data(), owner, nullptr, dlpack_type(output.dtype));
      // numpy has no bfloat16: such an output is an object that speaks DLPack.
      const bool numpy = output.dtype != DType::Bf16;
      list.append(numpy ? nb::cast(nb::ndarray<nb::numpy>(array)) : nb::cast(nb::ndarray<nb::array_api>(array)));
    }
    return list;
  }

 private:
  std::vector<Output> outputs_;
};

// A run's inputs where they lie, kept while this lives.
class Inputs {
 public:
  Inputs(const nb::list& inputs, const std::vector<PortInfo>& ports) {
    for (nb::handle input : inputs) {
      const size_t index = arrays_.size();
      const std::string what =
          format("input %zu (%s)", index, index < ports.size() ? ports[index].name.c_str() : "one too many");
      arrays_.push_back(to_array(input, what));
      const Array& array = arrays_.back();
      DType dtype{};
      if (!dtype_of(array.dtype(), &dtype)) {
        raise(Status::error(
            what +
            ": its dtype is none of float32, float16, bfloat16, float64, int8, int16, int32, int64, uint8 and bool"));
      }
      void* data = const_cast<void*>(static_cast<const void*>(array.data()));  // inputs are read only
      views_.push_back({data, dtype, array.shape_ptr(), static_cast<int>(array.ndim())});
    }
  }

  const TensorView* data() const { return views_.data(); }
  size_t size() const { return views_.size(); }

 private:
  std::vector<Array> arrays_;
  std::vector<TensorView> views_;
};

// Bytes that the session points into, copied to where they are aligned.
struct Payload {
  explicit Payload(const nb::bytes& bytes) : words(bytes.size() / 8 + 1) {
    std::memcpy(words.data(), bytes.c_str(), bytes.size());
  }
  std::vector<uint64_t> words;
};

class PySession {
 public:
  PySession(const nb::bytes& program, const nb::dict& constants, const std::string& device, int threads,
            size_t max_memory, int64_t max_work, std::shared_ptr<States> states, const std::vector<std::string>& gguf,
            std::optional<bool> winograd)
      : payload_(program), constants_(constants, gguf) {
    SessionOptions options;
    options.device = device;
    options.threads = threads;
    options.limits.memory = max_memory;
    if (max_work > 0) options.limits.work = max_work;
    options.states = std::move(states);
    options.winograd = winograd;
    const Status status = Session::load(payload_.words.data(), program.size(), &constants_, options, &session_);
    if (!status.ok()) raise(status);
  }

  nb::list run(const nb::list& inputs) {
    const Inputs views(inputs, session_->inputs());
    NewArrays sink;
    SignalWatch signals(set_interrupt);
    Status status;
    {
      nb::gil_scoped_release release;
      status = session_->run(views.data(), views.size(), &sink);
    }
    signals.rethrow();  // which may be why the run failed
    if (!status.ok()) raise(status);
    return sink.take();
  }

  nb::tuple placement(const nb::list& inputs) {
    const Inputs views(inputs, session_->inputs());
    Placement placement;
    Status status;
    {
      nb::gil_scoped_release release;
      status = session_->placement(views.data(), views.size(), &placement);
    }
    if (!status.ok()) raise(status);
    nb::list nodes;
    for (const NodePlacement& node : placement.nodes) {
      nodes.append(nb::make_tuple(readable(node.node), node.op, node.device, node.reason));
    }
    nb::list devices;
    for (const DeviceUse& use : placement.devices) {
      devices.append(nb::make_tuple(use.device, use.splits, use.leaf_bytes, use.bytes_to, use.bytes_from));
    }
    return nb::make_tuple(devices, nodes, placement.splits);
  }

  nb::tuple memory_use(const nb::list& inputs) {
    const Inputs views(inputs, session_->inputs());
    MemoryUse use;
    Status status;
    {
      nb::gil_scoped_release release;
      status = session_->memory_use(views.data(), views.size(), &use);
    }
    if (!status.ok()) raise(status);
    nb::list blocks;
    for (const MemoryBlock& block : use.blocks) {
      blocks.append(nb::make_tuple(block.node, block.offset, block.size, block.first, block.last));
    }
    return nb::make_tuple(use.bytes, use.steps, blocks);
  }

  void reset() {
    nb::gil_scoped_release release;  // a run on another thread may hold them
    session_->reset();
  }
  size_t prepared_count() {
    nb::gil_scoped_release release;
    return session_->prepared_count();
  }
  std::vector<std::string> input_names() const { return names(session_->inputs()); }
  std::vector<std::string> output_names() const { return names(session_->outputs()); }

 private:
  static std::vector<std::string> names(const std::vector<PortInfo>& ports) {
    std::vector<std::string> made;
    for (const PortInfo& port : ports) made.push_back(readable(port.name));
    return made;
  }

  Payload payload_;
  Arrays constants_;
  std::unique_ptr<Session> session_;
};

nb::list device_list() {
  nb::list list;
  for (const DeviceInfo& info : list_devices()) list.append(nb::make_tuple(info.name, info.description, info.kind));
  return list;
}

std::vector<std::string> add_server(const std::string& endpoint) {
  std::vector<ggml_backend_dev_t> devices;
  Status status;
  {
    nb::gil_scoped_release release;
    status = without_exceptions([&] { return add_rpc_server(endpoint, &devices); });
  }
  if (!status.ok()) raise(status);
  std::vector<std::string> names;
  for (ggml_backend_dev_t device : devices) names.emplace_back(ggml_backend_dev_name(device));
  return names;
}

void serve(const std::string& endpoint, const std::vector<std::string>& names, int threads) {
  std::vector<ggml_backend_dev_t> devices;
  Status status;
  for (const std::string& name : names) {
    ggml_backend_dev_t device = nullptr;
    if (status.ok()) status = find_device(name, &device);
    devices.push_back(device);
  }
  ggml_backend_dev_t cpu = nullptr;
  if (status.ok()) status = find_cpu(&cpu);
  if (status.ok()) {
    nb::gil_scoped_release release;
    status = serve_rpc(endpoint, devices, threads);
  }
  raise(status);
}

nb::tuple cpu() {
  CpuInfo info;
  const Status status = cpu_info(&info);
  if (!status.ok()) raise(status);
  return nb::make_tuple(info.kernels, info.library, info.library_isa);
}

bool prove_cpu(const std::string& path) {
  bool runs = false;
  const Status status = prove_cpu_library(path, &runs);
  if (!status.ok()) raise(status);
  return runs;
}

}  // namespace
}  // namespace executorch_ggml

NB_MODULE(_session, m) {
  using namespace executorch_ggml;
  nb::class_<States>(m, "States")
      .def(nb::init<>())
      .def("reset", &States::reset, nb::call_guard<nb::gil_scoped_release>());
  nb::class_<PySession>(m, "Session")
      .def(nb::init<const nb::bytes&, const nb::dict&, const std::string&, int, size_t, int64_t,
                    std::shared_ptr<States>, const std::vector<std::string>&, std::optional<bool>>(),
           nb::arg("program"), nb::arg("constants"), nb::arg("device"), nb::arg("threads"), nb::arg("max_memory"),
           nb::arg("max_work"), nb::arg("states").none(), nb::arg("gguf"), nb::arg("winograd").none())
      .def("run", &PySession::run, nb::arg("inputs"))
      .def("placement", &PySession::placement, nb::arg("inputs"))
      .def("memory_use", &PySession::memory_use, nb::arg("inputs"))
      .def("reset", &PySession::reset)
      .def_prop_ro("prepared_count", &PySession::prepared_count)
      .def_prop_ro("input_names", &PySession::input_names)
      .def_prop_ro("output_names", &PySession::output_names);
  add_gguf_file(m);
  add_quantizer(m);
  m.def("devices", &device_list);
  m.def("cpu", &cpu);
  m.def("prove_cpu_library", &prove_cpu, nb::arg("path"));
  m.def(
      "load_backend",
      [](const std::string& path, const std::string& name) {
        const Status status = load_backend(path, name);
        if (!status.ok()) raise(status);
      },
      nb::arg("path"), nb::arg("name"));
  m.def("add_rpc_server", &add_server, nb::arg("endpoint"));
  m.def("serve_rpc", &serve, nb::arg("endpoint"), nb::arg("devices"), nb::arg("threads"));
  m.def("set_default_threads", &set_default_threads, nb::arg("threads"));
  m.def("default_threads", [] {
    int threads = 0;
    const Status status = default_threads(&threads);
    if (!status.ok()) raise(status);
    return threads;
  });
}
