#include "device/host/parts.h"

namespace strobe {

constinit thread_local PartListener* part_listener = nullptr;

}  // namespace strobe
