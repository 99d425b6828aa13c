// oneDNN's matmul and softmax as a CPU peer without Python: attention with all scores in memory (Debian's oneDNN 2.6
// has no fused attention). no_onednn.cpp replaces it in a build without oneDNN and throws the reason.
#pragma once

#include <memory>

#include "bench/implementation.h"

namespace strobe::bench {

inline constexpr const char* kOnednnPeer = "onednn";

std::unique_ptr<Implementation> make_onednn_peer();

}  // namespace strobe::bench
