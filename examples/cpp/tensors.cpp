#include "tensors.h"

#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

using executorch::aten::BFloat16;
using executorch::aten::Half;
using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::runtime::EValue;
using executorch::runtime::MethodMeta;
using executorch::runtime::Tag;
using executorch::runtime::TensorInfo;

namespace {

constexpr size_t kShownValues = 8;

template <class T>
double load(const uint8_t* data, size_t index) {
  return static_cast<double>(reinterpret_cast<const T*>(data)[index]);
}

template <class T>
void fill_ones(uint8_t* data, size_t count) {
  std::fill_n(reinterpret_cast<T*>(data), count, static_cast<T>(1));
}

// The value of one element, for every type that a program's inputs and outputs usually have.
std::optional<double> element(ScalarType type, const void* data, size_t index) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  switch (type) {
    case ScalarType::Float:
      return load<float>(bytes, index);
    case ScalarType::Double:
      return load<double>(bytes, index);
    case ScalarType::Half:
      return load<Half>(bytes, index);
    case ScalarType::BFloat16:
      return load<BFloat16>(bytes, index);
    case ScalarType::Long:
      return load<int64_t>(bytes, index);
    case ScalarType::Int:
      return load<int32_t>(bytes, index);
    case ScalarType::Short:
      return load<int16_t>(bytes, index);
    case ScalarType::Char:
      return load<int8_t>(bytes, index);
    case ScalarType::Byte:
      return load<uint8_t>(bytes, index);
    case ScalarType::Bool:
      return load<bool>(bytes, index);
    default:
      return std::nullopt;
  }
}

bool set_to_ones(ScalarType type, std::vector<uint8_t>* memory, size_t count) {
  switch (type) {
    case ScalarType::Float:
      fill_ones<float>(memory->data(), count);
      return true;
    case ScalarType::Double:
      fill_ones<double>(memory->data(), count);
      return true;
    case ScalarType::Half:
      fill_ones<Half>(memory->data(), count);
      return true;
    case ScalarType::BFloat16:
      fill_ones<BFloat16>(memory->data(), count);
      return true;
    case ScalarType::Long:
      fill_ones<int64_t>(memory->data(), count);
      return true;
    case ScalarType::Int:
      fill_ones<int32_t>(memory->data(), count);
      return true;
    case ScalarType::Short:
      fill_ones<int16_t>(memory->data(), count);
      return true;
    case ScalarType::Char:
    case ScalarType::Byte:
    case ScalarType::Bool:
      fill_ones<uint8_t>(memory->data(), count);
      return true;
    default:
      return false;
  }
}

bool read_file(const std::string& path, std::vector<uint8_t>* bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "run_pte: cannot read '%s'\n", path.c_str());
    return false;
  }
  bytes->assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  return true;
}

std::string shape_text(const Tensor& tensor) {
  std::string text = "[";
  for (ssize_t i = 0; i < tensor.dim(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(tensor.size(i));
  }
  return text + "]";
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return text;
}

}  // namespace

bool Inputs::make(const MethodMeta& meta, const Options& options) {
  for (size_t i = 0; i < meta.num_inputs(); ++i) {
    const auto tag = meta.input_tag(i);
    const auto info = meta.input_tensor_meta(i);
    if (tag.ok() && tag.get() == Tag::Tensor && info.ok()) {
      if (!make_tensor(info.get(), i, options)) {
        return false;
      }
    } else if (tag.ok() && tag.get() == Tag::Int) {
      values_.emplace_back(static_cast<int64_t>(1));
    } else if (tag.ok() && tag.get() == Tag::Double) {
      values_.emplace_back(1.0);
    } else if (tag.ok() && tag.get() == Tag::Bool) {
      values_.emplace_back(true);
    } else {
      std::fprintf(stderr, "run_pte: input %zu is of a kind that this program cannot make\n", i);
      return false;
    }
  }
  if (options.inputs.size() > values_.size() || options.shapes.size() > values_.size()) {
    std::fprintf(stderr, "run_pte: the method takes %zu inputs, more are given\n", values_.size());
    return false;
  }
  return true;
}

bool Inputs::make_tensor(const TensorInfo& info, size_t index, const Options& options) {
  std::vector<executorch::aten::SizesType> sizes(info.sizes().begin(), info.sizes().end());
  std::vector<executorch::aten::DimOrderType> order(info.dim_order().begin(), info.dim_order().end());
  if (index < options.shapes.size() && !options.shapes[index].empty()) {
    if (options.shapes[index].size() != sizes.size()) {
      std::fprintf(stderr, "run_pte: input %zu has %zu dimensions, its --shape has %zu\n", index, sizes.size(),
                   options.shapes[index].size());
      return false;
    }
    sizes.assign(options.shapes[index].begin(), options.shapes[index].end());
  }
  size_t count = 1;
  for (const auto size : sizes) {
    count *= static_cast<size_t>(size);
  }
  const ScalarType type = info.scalar_type();
  std::vector<uint8_t> memory(count * executorch::runtime::elementSize(type));
  if (index < options.inputs.size()) {
    const size_t wanted = memory.size();
    if (!read_file(options.inputs[index], &memory)) {
      return false;
    }
    if (memory.size() != wanted) {
      std::fprintf(stderr, "run_pte: input %zu takes %zu bytes, '%s' has %zu\n", index, wanted,
                   options.inputs[index].c_str(), memory.size());
      return false;
    }
  } else if (!set_to_ones(type, &memory, count)) {
    std::fprintf(stderr, "run_pte: input %zu is of type %s, for which there is no default: give --input\n", index,
                 executorch::runtime::toString(type));
    return false;
  }
  memory_.push_back(std::move(memory));
  tensors_.push_back(
      executorch::extension::make_tensor_ptr(std::move(sizes), memory_.back().data(), std::move(order), {}, type));
  values_.emplace_back(*tensors_.back());
  return true;
}

std::string describe(const EValue& value) {
  if (value.isInt()) {
    return "int: " + std::to_string(value.toInt());
  }
  if (value.isDouble()) {
    return "double: " + number(value.toDouble());
  }
  if (value.isBool()) {
    return value.toBool() ? "bool: true" : "bool: false";
  }
  if (!value.isTensor()) {
    return "(not a tensor)";
  }
  const Tensor tensor = value.toTensor();
  std::string text = std::string(executorch::runtime::toString(tensor.scalar_type())) + " " + shape_text(tensor) + ":";
  const size_t count = static_cast<size_t>(tensor.numel());
  for (size_t i = 0; i < std::min(count, kShownValues); ++i) {
    const auto shown = element(tensor.scalar_type(), tensor.const_data_ptr(), i);
    text += shown ? " " + number(*shown) : " ?";
  }
  return text + (count > kShownValues ? " ..." : "");
}

bool matches(const EValue& value, const std::string& path, double tolerance) {
  std::vector<uint8_t> expected;
  if (!value.isTensor() || !read_file(path, &expected)) {
    return false;
  }
  const Tensor tensor = value.toTensor();
  if (expected.size() != tensor.nbytes()) {
    std::printf("'%s' has %zu bytes, the output has %zu\n", path.c_str(), expected.size(), tensor.nbytes());
    return false;
  }
  double largest = 0;
  double difference = 0;
  for (size_t i = 0; i < static_cast<size_t>(tensor.numel()); ++i) {
    const auto want = element(tensor.scalar_type(), expected.data(), i);
    const auto got = element(tensor.scalar_type(), tensor.const_data_ptr(), i);
    if (!want || !got) {
      return false;
    }
    largest = std::max(largest, std::fabs(*want));
    const double gap = std::fabs(*want - *got);
    // A NaN on one side only is as wrong as can be; max() would drop it.
    difference = std::isnan(gap) && !(std::isnan(*want) && std::isnan(*got)) ? std::numeric_limits<double>::infinity()
                                                                             : std::fmax(difference, gap);
  }
  std::printf("largest difference from '%s': %.3g of %.3g\n", path.c_str(), difference, largest);
  return difference <= tolerance * largest;
}
