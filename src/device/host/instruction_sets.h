// The instruction sets that inner code is compiled for, and which of them this machine has. attention/cpu/isa.cpp and
// ops/cpu/isa.cpp choose their tables by these names.
#pragma once

#include <span>
#include <string>

namespace strobe {

struct InstructionSet {
  const char* name;  // as in STROBE_CPU_ISA
  bool available;    // on this machine
};

// Of this architecture, from the least to the most capable.
std::span<const InstructionSet> instruction_sets();

// What STROBE_CPU_ISA names now; "" where it does not.
const char* forced_instruction_set();

// Why this machine has no instruction set of that name; empty where it has, and for "".
std::string instruction_set_refusal(const char* forced);

}  // namespace strobe
