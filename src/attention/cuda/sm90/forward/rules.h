// Which tiles a problem gets in the Hopper forward. Written by hand from the figures in
// docs/notes/2026-11-15-hopper.md until tools/tune-hopper --write has been run, which writes this file.
#pragma once

#include "attention/cuda/sm90/forward/shape.h"

namespace strobe::cuda::sm90 {

// clang-format off
inline constexpr ForwardRule kForwardRules[] = {
    {{64, 64}, false, 1536, {3, 128, 2, 2, false}},
    {{64, 64}, false, 0, {4, 64, 6, 2, true}},
    {{64, 64}, true, 1536, {3, 128, 3, 2, true}},
    {{64, 64}, true, 0, {4, 64, 6, 2, true}},
    {{96, 96}, false, 0, {2, 128, 2, 2, false}},
    {{96, 96}, true, 0, {2, 128, 2, 2, false}},
    {{128, 128}, false, 2048, {2, 176, 2, 1, false}},
    {{128, 128}, false, 0, {2, 128, 2, 2, false}},
    {{128, 128}, true, 8192, {2, 176, 2, 1, false}},
    {{128, 128}, true, 0, {2, 128, 2, 2, false}},
    {{192, 128}, false, 0, {2, 112, 2, 1, false}},
    {{192, 128}, true, 0, {2, 112, 2, 1, false}},
    {{192, 192}, false, 0, {2, 112, 2, 1, false}},
    {{192, 192}, true, 0, {2, 112, 2, 1, false}},
    {{256, 256}, false, 0, {2, 80, 2, 1, false}},
    {{256, 256}, true, 0, {2, 80, 2, 1, false}},
};
// clang-format on

}  // namespace strobe::cuda::sm90
