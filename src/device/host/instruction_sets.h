// Instruction sets that inner code is compiled for, and which of them this machine has. attention/cpu/isa.cpp and
// ops/cpu/isa.cpp choose their function tables by these names.
#pragma once

#include <span>
#include <string>

namespace strobe {

struct InstructionSet {
  const char* name;  // as in STROBE_CPU_ISA
  bool available;    // on this machine
};

// Instruction sets of this architecture, least capable first.
std::span<const InstructionSet> instruction_sets();

// Value of STROBE_CPU_ISA; "" if unset.
const char* forced_instruction_set();

// Why this machine lacks the instruction set `forced`; empty if it has it, and for "".
std::string instruction_set_refusal(const char* forced);

}  // namespace strobe
