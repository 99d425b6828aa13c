// Requests the operating system's permission to use AMX tile registers. instruction_sets.cpp calls this.
#pragma once

namespace strobe {

// Requests AMX; true if the machine has AMX-BF16 and the system grants it. May be repeated.
bool request_amx_permission();

}  // namespace strobe
