// Split-K: the keys of a row are split over several blocks. Chooses the number of splits, places the partial results in
// the workspace, and declares the kernel launch that combines them (splits.cu). Used by the forward passes of sm80 and
// sm90.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "attention/cuda/params.h"
#include "core/divide.h"
#include "strobe/dtype.h"

namespace strobe::cuda {

enum class Waits;  // defined in device/cuda/start_kernel.h, whose headers a build without CUDA does not have

inline constexpr std::int64_t kMostSplits = 128;

// Number of splits, at most `most`, such that each has at least one key tile.
constexpr int splits_with_tiles(std::int64_t key_tiles, std::int64_t most) {
  return static_cast<int>(ceil_div(key_tiles, ceil_div(key_tiles, most)));
}

// Number of splits with which `tiles` row tiles fill `slots`, the blocks that the GPU runs at once. A split has at
// least four key tiles on average. Returns 1 if the unsplit row tiles fill more than half of the slots.
constexpr int filling_splits(std::int64_t tiles, std::int64_t key_tiles, std::int64_t slots) {
  if (tiles == 0 || tiles * 2 > slots || key_tiles < 8) return 1;
  return splits_with_tiles(key_tiles, std::min<std::int64_t>({key_tiles / 4, slots / tiles, kMostSplits}));
}

struct Splits {
  std::int32_t count = 1;  // 1: rows are not split, and the other members are unset
  std::int32_t d = 0;      // columns of a partial row: the padded head dimension of V
  std::int64_t rows = 0;   // number of LSE entries
  float* o = nullptr;      // [count][rows][d]
  float* lse = nullptr;    // [count][rows]
};

constexpr std::size_t splits_bytes(int count, std::int64_t rows, int d) {
  return count == 1 ? 0 : static_cast<std::size_t>(count * rows * (d + 1)) * sizeof(float);
}

// Places the splits in `workspace`, which has splits_bytes() bytes.
inline Splits splits_in(void* workspace, int count, std::int64_t rows, int d) {
  Splits splits{.count = count, .d = d, .rows = rows};
  if (count > 1) {
    splits.o = static_cast<float*>(workspace);
    splits.lse = splits.o + count * rows * d;
  }
  return splits;
}

// Options that change which rows have keys. With a boolean mask these are the rows whose LSE is finite in some split.
struct KeyOptions {
  Indices first_keys;
  bool has_mask = false;
};

// Combines the partial results into O and LSE; does nothing if rows are not split. Waits::in_kernel requires code
// compiled for sm_90, because older code has no wait in the kernel.
void combine_splits(const OutputParams& params, const Splits& splits, DType dtype, void* stream, Waits waits,
                    const KeyOptions& options = {});

}  // namespace strobe::cuda
