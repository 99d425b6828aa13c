// oneDNN's matmul and softmax as a CPU peer without Python. Attention keeps all scores in memory, since Debian's oneDNN
// 2.6 has no fused attention. In a build without oneDNN, no_onednn.cpp replaces it and throws the reason.
#pragma once

#include <memory>

#include "bench/implementation.h"

namespace strobe::bench {

inline constexpr const char* kOnednnPeer = "onednn";

std::unique_ptr<Implementation> make_onednn_peer();

}  // namespace strobe::bench
