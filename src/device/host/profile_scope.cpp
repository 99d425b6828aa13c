// The calling thread's sink.
#include "device/host/profile_scope.h"

namespace strobe {

constinit thread_local ProfileSink* profile_sink = nullptr;

}  // namespace strobe
