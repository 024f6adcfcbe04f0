#include "operator_arguments.h"

#include <algorithm>
#include <iterator>

#include "program_generated.h"

namespace executorch_ggml {
namespace {

struct Row {
  std::string_view name;
  const char* arguments;
};

constexpr Row kRows[] = {
#include "operator_arguments.inc"
};

constexpr uint32_t bit(pte::KernelTypes type) { return 1u << static_cast<unsigned>(type); }

uint32_t types_of(char letter) {
  using Type = pte::KernelTypes;
  switch (letter) {
    case 'T':
    case 'W':
      return bit(Type::Tensor);
    case 'L':
    case 'M':
      return bit(Type::TensorList);
    case 'P':
      return bit(Type::OptionalTensorList);
    case 'I':
      return bit(Type::Int);
    case 'D':
      return bit(Type::Double);
    case 'B':
      return bit(Type::Bool);
    case 'S':
    case 'V':
    case 'O':
      return bit(Type::Int) | bit(Type::Double) | bit(Type::Bool);
    case 'N':
      return bit(Type::IntList);
    case 'F':
      return bit(Type::DoubleList);
    case 'Q':
      return bit(Type::BoolList);
    case 'X':
      return bit(Type::String);
    default:
      return 0;
  }
}

}  // namespace

const char* operator_arguments(std::string_view name) {
  const auto* row = std::lower_bound(std::begin(kRows), std::end(kRows), name,
                                     [](const Row& a, std::string_view b) { return a.name < b; });
  return row != std::end(kRows) && row->name == name ? row->arguments : nullptr;
}

bool is_argument(char letter, uint8_t type) {
  constexpr char kOptional = 'a' - 'A';
  const bool optional = letter >= 'a';
  const uint32_t types = types_of(optional ? static_cast<char>(letter - kOptional) : letter) |
                         (optional ? bit(pte::KernelTypes::Null) : 0);
  return type < 32 && (types >> type & 1u) != 0;
}

}  // namespace executorch_ggml
