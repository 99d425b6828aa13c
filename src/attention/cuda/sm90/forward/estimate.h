// Estimated clock cycles ("clocks") of a Hopper forward call. config.h minimizes this estimate to choose tiles and
// splits for problems with few heads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/cuda/sm90/forward/shape.h"
#include "core/divide.h"

namespace strobe::cuda::sm90 {

// Model of the clocks, fitted to measurements on an H200 (docs/kernels-cuda.md, "Few heads") by tools/fit-few-heads. A
// call takes the clocks of the matmuls plus those of exposed exponentials, which no matmul overlaps. With several
// warpgroups the clocks of exposed exponentials are proportional to exponentials^2 / matmuls; the factor is larger if
// two warpgroups share rows. With one warpgroup all exponentials are exposed. Each row tile (*_rows) and the kernel
// that combines splits have a fixed cost.
struct ForwardClocks {
  // Several warpgroups: factor of the exposed exponentials; cost of a row tile in units of one key tile's matmuls.
  double several = 0.86, several_rows = 3.4;
  // Two warpgroups that share rows: factor of the exposed exponentials; clocks per row tile, and per column of its O.
  double sharing = 1.25, sharing_rows = 2500, sharing_column = 30;
  // One warpgroup: factor of the exponentials; a row tile costs a key tile's matmuls plus single_rows times its
  // exponentials.
  double single = 2.9, single_rows = 12;
  double adding = 3400, added_a_clock = 330;  // combining splits: fixed clocks; elements of partial O per clock
  double gain = 1.045;                        // small tiles or splits are chosen if they are faster by this factor
};

// Number of row tiles of all heads, rounded up per head.
constexpr std::int64_t tiles_of(const ForwardFacts& facts, const ForwardConfig& config) {
  return facts.heads * ceil_div(facts.max_seqlen_q, rows_of(config.shape));
}

// Clocks per key tile, and fixed clocks per row tile.
struct TileClocks {
  double keys, rows;
};
constexpr TileClocks tile_clocks(HeadDims dims, const ForwardShape& shape, const ForwardClocks& fitted) {
  const double scores = rows_of(shape) * shape.keys;
  // Clocks of a key tile on the tensor cores and on the exp2 unit of one multiprocessor.
  const double products = scores * 2 * (dims.d + dims.dv) / 4096, exponentials = scores / 16;
  if (shape.consumers == 1) {
    return {products + fitted.single * exponentials, products + fitted.single_rows * exponentials};
  }
  const double exposed = exponentials * exponentials / products;
  if (shape.shares) {
    return {products + fitted.sharing * exposed, fitted.sharing_rows + fitted.sharing_column * dims.dv};
  }
  return {products + fitted.several * exposed, fitted.several_rows * products};
}

// Clocks from the first block's first matmul to the last block's end. If rows see different numbers of keys and there
// is no window, the model assumes that a row sees half of the keys on average.
constexpr double forward_clocks(const ForwardFacts& facts, const ForwardConfig& config, const ForwardClocks& fitted) {
  const ForwardShape& shape = config.shape;
  const TileClocks tile = tile_clocks(config.dims, shape, fitted);
  const std::int64_t tiles = tiles_of(facts, config) * config.splits;
  const std::int64_t keys =
      facts.window > 0 ? std::min(facts.max_seqlen_k, facts.window + rows_of(shape)) : facts.max_seqlen_k;
  const auto key_tiles = static_cast<double>(ceil_div(ceil_div(keys, shape.keys), config.splits));
  const auto each = static_cast<double>(tiles) / facts.multiprocessors;
  const double longest = key_tiles * tile.keys + tile.rows;
  const double clocks = facts.uneven && facts.window == 0
                            ? std::max(longest, each * ((key_tiles + 1) / 2 * tile.keys + tile.rows))
                            : static_cast<double>(ceil_div(tiles, facts.multiprocessors)) * longest;
  const auto added = static_cast<double>(facts.heads * facts.max_seqlen_q * config.splits * config.dims.dv);
  return clocks + (config.splits > 1 ? fitted.adding + added / fitted.added_a_clock : 0);
}

}  // namespace strobe::cuda::sm90
