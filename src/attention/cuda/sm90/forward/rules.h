// Tile rules of the Hopper forward, which config.h reads. `tools/tune-hopper --write` generates this file and documents
// how it chooses. Measured on NVIDIA H200, 580.159.04: D 96 and 192 on 2026-11-15, the others on 2026-11-19.
// After each rule: the sequence lengths that it covers, each followed by its TFLOP/s.
#pragma once

#include "attention/cuda/sm90/forward/shape.h"

namespace strobe::cuda::sm90 {

// clang-format off
inline constexpr ForwardRule kForwardRules[] = {
    {{64, 64}, false, 1536, {3, 128, 3, 2, true}},  // 2048 494, 4096 523, 8192 549, 16384 538
    {{64, 64}, false, 0, {4, 64, 6, 2, true}},  // 512 399, 1024 453
    {{64, 64}, true, 1536, {3, 128, 3, 2, true}},  // 2048 430, 4096 496, 8192 540, 16384 524
    {{64, 64}, true, 0, {4, 64, 6, 2, true}},  // 512 277, 1024 365
    {{96, 96}, false, 1536, {3, 80, 3, 1, true}},  // 2048 558, 4096 589, 8192 611, 16384 568
    {{96, 96}, false, 0, {2, 128, 2, 2, false}},  // 512 391, 1024 475
    {{96, 96}, true, 0, {3, 80, 3, 1, true}},  // 512 260, 1024 375, 2048 479, 4096 550, 8192 547, 16384 563
    {{128, 128}, false, 6144, {2, 176, 2, 1, false}},  // 8192 671, 16384 673
    {{128, 128}, false, 0, {2, 128, 2, 2, false}},  // 512 504, 1024 609, 2048 671, 4096 676
    {{128, 128}, true, 6144, {2, 176, 2, 1, false}},  // 8192 653, 16384 659
    {{128, 128}, true, 0, {3, 80, 4, 1, true}},  // 512 316, 1024 452, 2048 578, 4096 641
    {{192, 128}, false, 0, {2, 128, 2, 1, false}},  // 512 480, 1024 599, 2048 678, 4096 719, 8192 738, 16384 739
    {{192, 128}, true, 0, {2, 128, 2, 1, false}},  // 512 277, 1024 402, 2048 511, 4096 588, 8192 646, 16384 668
    {{192, 192}, false, 0, {2, 112, 2, 1, false}},  // 512 470, 1024 571, 2048 664, 4096 722, 8192 743, 16384 757
    {{192, 192}, true, 0, {2, 112, 2, 1, false}},  // 512 278, 1024 418, 2048 540, 4096 634, 8192 686, 16384 709
    {{256, 256}, false, 0, {2, 80, 2, 1, false}},  // 512 519, 1024 668, 2048 746, 4096 784, 8192 811, 16384 823
    {{256, 256}, true, 0, {2, 80, 2, 1, false}},  // 512 324, 1024 480, 2048 626, 4096 722, 8192 783, 16384 811
};
// clang-format on

}  // namespace strobe::cuda::sm90
