// Requests the operating system's permission to use AMX tile registers. Called by instruction_sets.cpp.
#pragma once

namespace strobe {

// Returns true if the machine has AMX-BF16 and the system grants the permission. May be called repeatedly.
bool request_amx_permission();

}  // namespace strobe
