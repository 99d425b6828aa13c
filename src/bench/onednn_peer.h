// A CPU peer built from oneDNN's matmul and softmax, without Python. It materialises all scores, since Debian's oneDNN
// 2.6 has no fused attention. Without oneDNN in the build, no_onednn.cpp replaces the peer and throws the reason.
#pragma once

#include <memory>

#include "bench/implementation.h"

namespace strobe::bench {

inline constexpr const char* kOnednnPeer = "onednn";

std::unique_ptr<Implementation> make_onednn_peer();

}  // namespace strobe::bench
