// Implements forward_config(): chooses kernel kind, tile shape, stages and splits of flash2's forward.
#include "attention/cuda/sm80/forward/config.h"

#include <algorithm>

#include "attention/cuda/splits.h"
#include "core/divide.h"

namespace strobe::cuda::sm80 {

namespace {

template <std::size_t kCount>
int padded(const int (&dims)[kCount], int d) {
  for (const int dim : dims) {
    if (d <= dim) return dim;
  }
  return dims[kCount - 1];
}

// Blocks that fit on one multiprocessor, by registers and by shared memory. The system reserves 1 KiB of shared memory
// per block, and a multiprocessor has 1 KiB more than a block may use.
int resident_blocks(const ForwardShape& shape, std::size_t bytes, std::size_t limit) {
  const auto by_memory = static_cast<int>((limit + 1024) / (bytes + 1024));
  return std::max(1, std::min(shape.blocks, by_memory));
}

// Returns two stages if the second costs no resident block, otherwise one. more: additional shared memory in bytes.
int best_stages(int d, const ForwardShape& shape, SplitFormat split_format, std::size_t more, std::size_t limit) {
  const std::size_t one = forward_shared_bytes(d, shape, split_format, 1) + more;
  const std::size_t two = forward_shared_bytes(d, shape, split_format, 2) + more;
  if (two > limit || split_format != SplitFormat::whole)
    return 1;  // fp32 is loaded through registers and has no copies in flight
  return resident_blocks(shape, two, limit) >= resident_blocks(shape, one, limit) ? 2 : 1;
}

int best_splits(const ForwardFacts& facts, const ForwardConfig& config, std::int64_t tiles) {
  const ForwardShape& shape = config.shape;
  const std::int64_t slots =
      std::int64_t{facts.multiprocessors} * resident_blocks(shape, config.shared_bytes, facts.shared_bytes_per_block);
  return facts.unsplittable ? 1 : filling_splits(tiles, ceil_div(facts.max_seqlen_k, shape.keys), slots);
}

}  // namespace

ForwardConfig forward_config(const ForwardFacts& facts) {
  const int d = std::max(facts.d, facts.dv);
  const std::int64_t group = facts.heads_kv > 0 ? facts.heads_q / facts.heads_kv : 1;
  ForwardConfig config;
  const auto take = [&](ForwardKind kind, int dim) {
    config.kind = kind;
    config.d = dim;
    if (facts.fp32) config.split_format = fp32_split_format(kind == ForwardKind::plain, facts.tf32);
    config.shape = forward_shape(dim, kind, config.split_format);
    const std::size_t limit = facts.shared_bytes_per_block;
    const std::size_t bias = kind == ForwardKind::options && facts.bias ? forward_bias_bytes(config.shape) : 0;
    config.stages = best_stages(dim, config.shape, config.split_format, bias, limit);
    config.shared_bytes = forward_shared_bytes(dim, config.shape, config.split_format, config.stages) + bias;
  };
  if (!facts.general && facts.options && !facts.fp32 && d <= 128) {
    take(ForwardKind::options, padded(kOptionsDims, d));
  } else if (!facts.general && !facts.options && !facts.fp32) {
    const int dim = padded(kPlainDims, d);
    if (facts.max_seqlen_q * group <= 64) {
      take(ForwardKind::small, padded(kGeneralDims, d));
      config.packed_heads = static_cast<int>(group);
    } else if (facts.triangle && facts.max_seqlen_q > 64 &&
               ((dim == 128 && facts.max_seqlen_q <= 2048) || (dim == 64 && facts.max_seqlen_q <= 512))) {
      take(ForwardKind::small, dim);
    } else {
      take(ForwardKind::plain, dim);
      // Heads of a group share a tile if one head would leave most of it empty.
      if (facts.max_seqlen_q * 2 <= config.shape.rows) config.packed_heads = static_cast<int>(group);
    }
  } else if (!facts.general && !facts.options && d <= 64) {
    take(ForwardKind::plain, padded(kPlainFp32Dims, d));
    if (facts.max_seqlen_q * 2 <= config.shape.rows) config.packed_heads = static_cast<int>(group);
  } else {
    take(ForwardKind::general, padded(kGeneralDims, d));
  }
  if (config.shared_bytes > facts.shared_bytes_per_block && config.kind != ForwardKind::general) {
    take(ForwardKind::general, padded(kGeneralDims, d));
    config.packed_heads = 1;
  }
  const std::int64_t rows = facts.max_seqlen_q * config.packed_heads;
  config.splits =
      best_splits(facts, config,
                  facts.batch * (facts.heads_q / std::max(1, config.packed_heads)) * ceil_div(rows, config.shape.rows));
  return config;
}

}  // namespace strobe::cuda::sm80
