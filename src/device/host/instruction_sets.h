// Lists the instruction sets for which inner loops are compiled, and which of them this machine supports.
// attention/cpu/isa.cpp and ops/cpu/isa.cpp select their function tables by these names.
#pragma once

#include <span>
#include <string>

namespace strobe {

struct InstructionSet {
  const char* name;  // value of STROBE_CPU_ISA
  bool available;    // true if this machine supports it
};

// Returns the instruction sets of this architecture, least capable first.
std::span<const InstructionSet> instruction_sets();

// Returns the value of STROBE_CPU_ISA, or "" if it is not set.
const char* forced_instruction_set();

// Returns an error text if `forced`, a value of STROBE_CPU_ISA, names no available instruction set. Returns "" if it
// does, or if `forced` is "".
std::string instruction_set_refusal(const char* forced);

}  // namespace strobe
