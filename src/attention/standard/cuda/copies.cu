// Implements gather() and scatter() of rows.h: copies between the caller's tensors, with any strides and lengths, and
// contiguous padded rows for cuBLAS.
#include "attention/standard/cuda/rows.h"
#include "attention/standard/cuda/score_rows.cuh"
#include "device/cuda/check.h"

namespace strobe::standard {

namespace {

enum class Direction { gather, scatter };

constexpr int kRows = 8;  // rows per block, one warp per row

// Copies bits, so Word only needs to have the size of an element.
template <class Word>
__global__ void copy_rows(SequenceParams params, Copy copy, std::int64_t rows, Direction direction) {
  const std::int64_t longest = copy.side == Side::queries ? params.max_seqlen_q : params.max_seqlen_k;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kRows;
  for (std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kRows + threadIdx.y; index < rows; index += step) {
    const std::int64_t i = index % longest;
    const std::int64_t h = copy.first_head + index / longest % copy.heads;
    const std::int64_t b = copy.first_batch + index / longest / copy.heads;
    const Extent extent = extent_of(params, copy.first_keys, copy.side, b);
    const std::int64_t first = b * copy.tensor.batch + h * copy.tensor.head + (extent.begin + i) * copy.tensor.row;
    Word* theirs = static_cast<Word*>(copy.tensor.data) + first;
    Word* ours = static_cast<Word*>(copy.rows) + index * copy.row;
    for (int c = threadIdx.x; c < copy.cols; c += 32) {
      if (direction == Direction::gather) {
        const bool valid = i >= extent.first_valid && i < extent.length;
        ours[c] = valid ? theirs[static_cast<std::int64_t>(c) * copy.tensor.column] : Word{};
      } else if (!params.packed || i < extent.length) {
        theirs[c] = ours[c];
      }
    }
  }
}

void launch(DType dtype, const SequenceParams& params, const Copy& copy, Direction direction, void* stream) {
  const std::int64_t rows =
      copy.batches * copy.heads * (copy.side == Side::queries ? params.max_seqlen_q : params.max_seqlen_k);
  if (rows == 0) return;
  const unsigned blocks = blocks_for((rows + kRows - 1) / kRows);
  const auto on = static_cast<cudaStream_t>(stream);
  if (dtype == DType::fp32) {
    copy_rows<std::uint32_t><<<blocks, dim3(32, kRows), 0, on>>>(params, copy, rows, direction);
  } else {
    copy_rows<std::uint16_t><<<blocks, dim3(32, kRows), 0, on>>>(params, copy, rows, direction);
  }
  cuda::check_launch("copy_rows");
}

}  // namespace

void gather(DType dtype, const SequenceParams& params, const Copy& copy, void* stream) {
  launch(dtype, params, copy, Direction::gather, stream);
}

void scatter(DType dtype, const SequenceParams& params, const Copy& copy, void* stream) {
  launch(dtype, params, copy, Direction::scatter, stream);
}

}  // namespace strobe::standard
