// The Python face of loaded programs: torch tensors in, tensors of their own out, and no GIL held in between.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <utility>

#include "../python/signals.h"
#include "executorch_ggml.h"
#include "program.h"
#include "recorder.h"
#include "scalar_types.h"
#include "status.h"

namespace nb = nanobind;

namespace executorch_ggml {
namespace {

void check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(readable(status.message()));
}

// torch's way to exchange tensors; it lives as long as the process.
struct Torch {
  PyTypeObject* tensor_type;
  const dlpack::ExchangeApi* api;
};

const Torch& torch() {
  static const Torch found = [] {
    nb::object type = nb::module_::import_("torch").attr("Tensor");
    nb::object capsule = nb::getattr(type, "__dlpack_c_exchange_api__");
    auto* api = static_cast<dlpack::ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    if (api == nullptr) nb::raise_python_error();
    if (api->version.major != 1) throw std::runtime_error("torch speaks another DLPack than version 1");
    return Torch{reinterpret_cast<PyTypeObject*>(type.release().ptr()), api};
  }();
  return found;
}

InputTensor to_tensor(nb::handle object, size_t index) {
  dlpack::Tensor source{};
  if (torch().api->tensor_from_object(object.ptr(), &source) != 0) nb::raise_python_error();
  if (source.device.type != dlpack::kCpu) {
    throw std::runtime_error(format("input %zu is not in the CPU's memory; move it there with .cpu()", index));
  }
  const ScalarTypeInfo* type = find_scalar_type(source.dtype);
  if (type == nullptr) {
    const std::string dtype = nb::cast<std::string>(nb::str(object.attr("dtype")));
    throw std::runtime_error(format("input %zu: dtype %s, which ExecuTorch does not have", index, dtype.c_str()));
  }
  if (source.ndim > kMaxRank) {
    throw std::runtime_error(format("input %zu has %d dims, expected at most %d", index, source.ndim, kMaxRank));
  }
  InputTensor tensor{static_cast<char*>(source.data) + source.byte_offset, type->type, source.ndim, {}, {}};
  int64_t stride = 1;
  for (int d = source.ndim - 1; d >= 0; --d) {
    tensor.sizes[d] = source.shape[d];
    tensor.strides[d] = source.strides != nullptr ? source.strides[d] : stride;
    stride *= source.shape[d];
  }
  return tensor;
}

Input to_input(nb::handle object, size_t index) {
  if (PyObject_TypeCheck(object.ptr(), torch().tensor_type)) return to_tensor(object, index);
  if (object.is_none()) return std::monostate();
  if (PyBool_Check(object.ptr())) return nb::cast<bool>(object);
  if (PyLong_Check(object.ptr())) return nb::cast<int64_t>(object);
  if (PyFloat_Check(object.ptr())) return nb::cast<double>(object);
  const std::string type = nb::cast<std::string>(nb::str(object.type().attr("__name__")));
  throw std::runtime_error(format("input %zu: a %s, expected a torch tensor or a number", index, type.c_str()));
}

// A tensor of torch's that owns an output's memory.
nb::object to_object(OutputTensor&& output) {
  struct Owned {
    dlpack::ManagedTensor managed;
    OutputTensor output;
  };
  const ScalarTypeInfo* type = find_scalar_type(output.dtype);
  if (type == nullptr) throw std::runtime_error("an output of a dtype that torch does not exchange");
  auto owned = std::make_unique<Owned>(Owned{{}, std::move(output)});
  OutputTensor& kept = owned->output;
  owned->managed = {torch().api->version,
                    owned.get(),
                    [](dlpack::ManagedTensor* self) { delete static_cast<Owned*>(self->context); },
                    0,
                    {kept.data.get(),
                     {dlpack::kCpu, 0},
                     static_cast<int32_t>(kept.sizes.size()),
                     type->dlpack,
                     kept.sizes.data(),
                     kept.strides.data(),
                     0}};
  void* object = nullptr;
  if (torch().api->object_from_managed(&owned.release()->managed, &object) != 0) nb::raise_python_error();
  return nb::steal(static_cast<PyObject*>(object));
}

struct ToPython {
  nb::object operator()(std::monostate) const { return nb::none(); }
  nb::object operator()(OutputTensor& tensor) const { return to_object(std::move(tensor)); }
  template <class T>
  nb::object operator()(T& value) const {
    return nb::cast(value);
  }
};

class PyProgram {
 public:
  PyProgram(const std::string& path, const std::string& data_path, bool map, const std::string& device, bool etdump,
            bool intermediate_outputs) {
    const nb::gil_scoped_release release;
    check(LoadedProgram::load(path, {data_path, map, device, etdump, intermediate_outputs}, &program_));
  }

  const std::vector<std::string>& method_names() const { return program_->method_names(); }

  // The largest sizes and the order of the dims in memory of each input, None where it is no tensor.
  nb::list inputs(const std::string& method) const {
    std::vector<std::optional<TensorInfo>> infos;
    check(program_->inputs(method, &infos));
    nb::list list;
    for (const auto& info : infos) {
      list.append(info ? nb::object(nb::make_tuple(nb::cast(info->sizes), nb::cast(info->dim_order))) : nb::none());
    }
    return list;
  }

  void load_method(const std::string& method) {
    const nb::gil_scoped_release release;
    check(program_->load_method(method));
  }

  // `values` keeps the tensors alive meanwhile.
  nb::list run(const std::string& method, const nb::tuple& values) {
    std::vector<Input> inputs;
    inputs.reserve(values.size());
    for (nb::handle value : values) inputs.push_back(to_input(value, inputs.size()));
    std::vector<Output> outputs;
    SignalWatch signals(executorch_ggml_set_interrupt);
    Status status;
    {
      const nb::gil_scoped_release release;
      status = program_->run(method, inputs, &outputs);
    }
    signals.rethrow();  // which may be why the run failed
    check(status);
    nb::list list;
    for (Output& output : outputs) list.append(std::visit(ToPython(), output));
    return list;
  }

  // The ETDump of the runs since the last time, and the values that it refers to.
  nb::tuple take_recording() {
    Recording recording;
    {
      const nb::gil_scoped_release release;  // a run on another thread may hold it
      check(program_->take_recording(&recording));
    }
    return nb::make_tuple(nb::bytes(recording.etdump.data(), recording.etdump.size()),
                          nb::bytes(recording.values.data(), recording.values.size()));
  }

  void reset_states() {
    const nb::gil_scoped_release release;  // a run on another thread may hold them
    check(program_->reset_states());
  }

 private:
  std::unique_ptr<LoadedProgram> program_;
};

}  // namespace
}  // namespace executorch_ggml

NB_MODULE(_program, m) {
  using executorch_ggml::PyProgram;
  nb::class_<PyProgram>(m, "Program")
      .def(nb::init<const std::string&, const std::string&, bool, const std::string&, bool, bool>(), nb::arg("path"),
           nb::arg("data_path"), nb::arg("map"), nb::arg("device"), nb::arg("etdump") = false,
           nb::arg("intermediate_outputs") = false)
      .def_prop_ro("method_names", &PyProgram::method_names)
      .def("inputs", &PyProgram::inputs, nb::arg("method"))
      .def("load_method", &PyProgram::load_method, nb::arg("method"))
      .def("run", &PyProgram::run, nb::arg("method"), nb::arg("inputs"))
      .def("take_recording", &PyProgram::take_recording)
      .def("reset_states", &PyProgram::reset_states);
}
