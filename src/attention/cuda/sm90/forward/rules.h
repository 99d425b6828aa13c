// Tile rules of the Hopper forward, which config.h reads. `tools/tune-hopper --write` generates this file and documents
// how it chooses. Measured on NVIDIA H200, 580.159.04, 2026-11-15.
// After each rule: the sequence lengths that it covers, each followed by its TFLOP/s.
#pragma once

#include "attention/cuda/sm90/forward/shape.h"

namespace strobe::cuda::sm90 {

// clang-format off
inline constexpr ForwardRule kForwardRules[] = {
    {{64, 64}, false, 1536, {3, 128, 3, 2, true}},  // 2048 491, 4096 522, 8192 527, 16384 537
    {{64, 64}, false, 0, {4, 64, 6, 2, true}},  // 512 384, 1024 439
    {{64, 64}, true, 1536, {3, 128, 3, 2, true}},  // 2048 427, 4096 490, 8192 513, 16384 526
    {{64, 64}, true, 0, {4, 64, 6, 2, true}},  // 512 262, 1024 352
    {{96, 96}, false, 1536, {3, 80, 3, 1, true}},  // 2048 558, 4096 589, 8192 611, 16384 568
    {{96, 96}, false, 0, {2, 128, 2, 2, false}},  // 512 391, 1024 475
    {{96, 96}, true, 0, {3, 80, 3, 1, true}},  // 512 260, 1024 375, 2048 479, 4096 550, 8192 547, 16384 563
    {{128, 128}, false, 1536, {2, 176, 2, 1, false}},  // 2048 622, 4096 645, 8192 656, 16384 650
    {{128, 128}, false, 0, {2, 128, 2, 2, false}},  // 512 454, 1024 558
    {{128, 128}, true, 6144, {2, 176, 2, 1, false}},  // 8192 665, 16384 642
    {{128, 128}, true, 0, {3, 80, 4, 1, true}},  // 512 306, 1024 427, 2048 547, 4096 623
    {{192, 128}, false, 0, {2, 128, 2, 1, false}},  // 512 480, 1024 599, 2048 678, 4096 719, 8192 738, 16384 739
    {{192, 128}, true, 0, {2, 128, 2, 1, false}},  // 512 277, 1024 402, 2048 511, 4096 588, 8192 646, 16384 668
    {{192, 192}, false, 0, {2, 112, 2, 1, false}},  // 512 470, 1024 571, 2048 664, 4096 722, 8192 743, 16384 757
    {{192, 192}, true, 0, {2, 112, 2, 1, false}},  // 512 278, 1024 418, 2048 540, 4096 634, 8192 686, 16384 709
    {{256, 256}, false, 0, {2, 80, 2, 1, false}},  // 512 489, 1024 620, 2048 693, 4096 729, 8192 744, 16384 698
    {{256, 256}, true, 0, {2, 80, 2, 1, false}},  // 512 307, 1024 444, 2048 563, 4096 637, 8192 680, 16384 703
};
// clang-format on

}  // namespace strobe::cuda::sm90
