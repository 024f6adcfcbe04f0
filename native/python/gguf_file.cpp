// GGUF files for Python: metadata as Python's own values, tensors as arrays in the mapped file.

#include "gguf_file.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <stdexcept>

#include "gguf.h"
#include "status.h"

namespace nb = nanobind;

namespace executorch_ggml {
namespace {

template <class T>
T take(const uint8_t** at) {
  T value;
  std::memcpy(&value, *at, sizeof(T));
  *at += sizeof(T);
  return value;
}

// Bytes that are no UTF-8 become lone surrogates, so that different bytes stay different.
nb::object take_text(const uint8_t** at) {
  const auto length = take<uint64_t>(at);
  const char* text = reinterpret_cast<const char*>(*at);
  *at += length;
  PyObject* made = PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(length), "surrogateescape");
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

nb::object take_element(GgufType type, const uint8_t** at) {
  switch (type) {
#define CASE(name, type) \
  case GgufType::name:   \
    return nb::cast(take<type>(at));
    CASE(U8, uint8_t)
    CASE(I8, int8_t)
    CASE(U16, uint16_t)
    CASE(I16, int16_t)
    CASE(U32, uint32_t)
    CASE(I32, int32_t)
    CASE(U64, uint64_t)
    CASE(I64, int64_t)
    CASE(F32, float)
    CASE(F64, double)
#undef CASE
    case GgufType::Bool:
      return nb::cast(take<uint8_t>(at) != 0);
    default:
      return take_text(at);
  }
}

nb::object to_python(const GgufEntry& entry) {
  const uint8_t* at = entry.data;
  if (!entry.is_array) return take_element(entry.type, &at);
  nb::list list;
  for (uint64_t i = 0; i < entry.count; ++i) list.append(take_element(entry.type, &at));
  return list;
}

class PyGgufFile {
 public:
  explicit PyGgufFile(const std::string& path) {
    const Status status = GgufFile::open(path, &file_);
    if (!status.ok()) throw nb::value_error(readable(status.message()).c_str());
  }

  std::string id() const { return file_->contents().id(); }

  nb::dict metadata() const {
    nb::dict dict;
    for (const GgufEntry& entry : file_->contents().entries()) dict[entry.key.c_str()] = to_python(entry);
    return dict;
  }

  // (name, number of its ggml type, sizes with the innermost first)
  nb::list tensors() const {
    nb::list list;
    for (const GgufTensor& tensor : file_->contents().tensors()) {
      nb::list sizes;
      for (int d = 0; d < tensor.rank; ++d) sizes.append(tensor.ne[d]);
      list.append(nb::make_tuple(tensor.name, static_cast<int>(tensor.type), sizes));
    }
    return list;
  }

  // A tensor's bytes where they lie; the mapping lives as long as they are used.
  nb::object data(const std::string& name) const {
    const GgufTensor* tensor = file_->contents().find(name);
    if (tensor == nullptr) throw nb::key_error(name.c_str());
    auto* keeper = new std::shared_ptr<const GgufFile>(file_);
    nb::capsule owner(keeper, [](void* kept) noexcept { delete static_cast<std::shared_ptr<const GgufFile>*>(kept); });
    // Written to by nobody: torch has no arrays that cannot be.
    return nb::cast(nb::ndarray<nb::pytorch, uint8_t>(const_cast<uint8_t*>(tensor->data), {tensor->size}, owner));
  }

 private:
  std::shared_ptr<const GgufFile> file_;
};

}  // namespace

void add_gguf_file(nb::module_& m) {
  nb::class_<PyGgufFile>(m, "GgufFile")
      .def(nb::init<const std::string&>(), nb::arg("path"))
      .def_prop_ro("id", &PyGgufFile::id)
      .def("metadata", &PyGgufFile::metadata)
      .def("tensors", &PyGgufFile::tensors)
      .def("data", &PyGgufFile::data, nb::arg("name"));
}

}  // namespace executorch_ggml
