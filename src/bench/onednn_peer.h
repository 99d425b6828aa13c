// oneDNN's products and softmax as a peer on the CPU, without Python: attention with all scores in memory, as one
// writes it with that library (Debian's 2.6 has no fused attention). A build without oneDNN has no_onednn.cpp, which
// refuses with the reason.
#pragma once

#include <memory>

#include "bench/implementation.h"

namespace strobe::bench {

inline constexpr const char* kOnednnPeer = "onednn";

std::unique_ptr<Implementation> make_onednn_peer();

}  // namespace strobe::bench
