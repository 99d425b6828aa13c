// AMX needs the operating system's permission before a process first touches its tile registers. Called by
// instruction_sets.cpp.
#pragma once

namespace strobe {

// Whether the machine multiplies bf16 by AMX and the system lets this process; asks it to. Repeating is harmless.
bool request_amx_permission();

}  // namespace strobe
