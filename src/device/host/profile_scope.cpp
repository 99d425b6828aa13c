// Defines the calling thread's sink of profiling scopes.
#include "device/host/profile_scope.h"

namespace strobe {

constinit thread_local ProfileSink* profile_sink = nullptr;

}  // namespace strobe
