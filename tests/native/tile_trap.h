// Runs AMX's instructions on a CPU without them: each raises SIGILL, whose handler decodes it, lets the emulation do
// it, and goes on behind it. So what the compiler made of a kernel is tested where there is no AMX.
#pragma once

#include "tile_emulation.h"

#if defined(__linux__) && defined(__x86_64__)
#define EXECUTORCH_GGML_TILE_TRAP 1

#include <signal.h>
#include <ucontext.h>

namespace executorch_ggml::testing {

class TileTrap {
 public:
  TileTrap() {
    struct sigaction action{};
    action.sa_sigaction = on_illegal_instruction;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGILL, &action, &previous_);
  }
  ~TileTrap() { sigaction(SIGILL, &previous_, nullptr); }
  TileTrap(const TileTrap&) = delete;
  TileTrap& operator=(const TileTrap&) = delete;

  static int64_t count() { return instructions(); }

 private:
  // C4, then R X B and the opcode map, then W, the third operand, the length and the prefix, then the opcode.
  struct Instruction {
    const uint8_t* code;
    const greg_t* registers;

    bool is_of_tiles() const { return code[0] == 0xc4 && (code[1] & 31) == 2 && (code[2] & 0x84) == 0; }
    int opcode() const { return code[3]; }
    int prefix() const { return code[2] & 3; }  // none, 66, f3, f2
    int mode() const { return code[4] >> 6; }
    int first() const { return (code[4] >> 3 & 7) | (code[1] & 0x80 ? 0 : 8); }
    int second() const { return (code[4] & 7) | (code[1] & 0x20 ? 0 : 8); }
    int third() const { return ~(code[2] >> 3) & 15; }

    bool has_index() const { return mode() != 3 && (code[4] & 7) == 4; }
    bool is_relative() const { return mode() == 0 && (code[4] & 7) == 5; }
    bool is_without_base() const { return has_index() && mode() == 0 && (code[5] & 7) == 5; }
    int offset_bytes() const { return mode() == 1 ? 1 : mode() == 2 || is_relative() || is_without_base() ? 4 : 0; }
    int length() const { return 5 + has_index() + offset_bytes(); }

    int64_t offset() const {
      const uint8_t* at = code + 5 + has_index();
      int32_t wide = 0;
      std::memcpy(&wide, at, offset_bytes() == 4 ? 4 : 0);
      return offset_bytes() == 1 ? static_cast<int8_t>(*at) : wide;
    }
    char* base() const {
      int64_t address = offset();
      if (is_relative()) {
        address += registers[REG_RIP] + length();
      } else if (!is_without_base()) {
        address += general(has_index() ? (code[5] & 7) | (code[1] & 0x20 ? 0 : 8) : second());
      }
      return reinterpret_cast<char*>(address);
    }
    int64_t stride() const {
      const int index = (code[5] >> 3 & 7) | (code[1] & 0x40 ? 0 : 8);
      return index == 4 ? 0 : general(index) << (code[5] >> 6);
    }
    int64_t general(int number) const {
      static constexpr int kOrder[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                       REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
      return registers[kOrder[number]];
    }
  };

  static int64_t& instructions() {
    static int64_t count = 0;
    return count;
  }

  static void on_illegal_instruction(int, siginfo_t*, void* context) {
    greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    const Instruction instruction = {reinterpret_cast<const uint8_t*>(registers[REG_RIP]), registers};
    if (!instruction.is_of_tiles() || !emulate(instruction)) {
      std::fprintf(stderr, "SIGILL of another instruction than AMX's\n");
      std::abort();
    }
    registers[REG_RIP] += instruction.length();
    ++instructions();
  }

  enum Prefix { kNone = 0, k66 = 1, kF3 = 2, kF2 = 3 };

  // False for what no kernel uses.
  static bool emulate(const Instruction& i) {
    TileUnit& unit = tile_unit();
    const bool in_memory = i.mode() != 3;
    if (i.opcode() == 0x49 && i.prefix() == kNone) {
      in_memory ? unit.configure(i.base()) : unit.release();
    } else if (i.opcode() == 0x49 && i.prefix() == k66 && in_memory) {
      unit.save(i.base());
    } else if (i.opcode() == 0x49 && i.prefix() == kF2 && !in_memory) {
      unit.zero(i.first());
    } else if (i.opcode() == 0x4b && i.prefix() == kF2 && i.has_index()) {
      unit.load(i.first(), i.base(), i.stride());
    } else if (i.opcode() == 0x4b && i.prefix() == kF3 && i.has_index()) {
      unit.store(i.first(), i.base(), i.stride());
    } else if (i.opcode() == 0x5e && i.prefix() == k66 && !in_memory) {
      unit.add_products<uint8_t, int8_t>(i.first(), i.second(), i.third());
    } else if (i.opcode() == 0x5e && i.prefix() == kF3 && !in_memory) {
      unit.add_products<int8_t, uint8_t>(i.first(), i.second(), i.third());
    } else if (i.opcode() == 0x5c && i.prefix() == kF3 && !in_memory) {
      unit.add_bfloat_products(i.first(), i.second(), i.third());
    } else {
      return false;
    }
    return true;
  }

  struct sigaction previous_{};
};

}  // namespace executorch_ggml::testing

#endif
