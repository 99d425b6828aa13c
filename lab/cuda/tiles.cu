// Experiment with tile sizes: the kernel of rung `float4` with Br rows and Bc keys per tile and 16 warps per block.
// Unlike the rungs, it divides O by l only once, after the last key.
//
// A warp computes Br / 16 rows, and a thread Bc / 32 keys of each row. A float of K read from shared memory is used for
// Br / 16 rows, a float of Q for Bc / 32 keys. Larger tiles therefore need fewer reads, but more registers and shared
// memory, so that fewer blocks fit on an SM.
#include "lab/cuda/host.h"
#include "lab/cuda/warp.cuh"
#include "lab/experiments.h"

namespace strobe::lab {
namespace {

constexpr int kWarps = 16, kLanes = 32, kPad = 4;

__device__ float4 four(const float* at) { return *reinterpret_cast<const float4*>(at); }
__device__ float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }

// Copies kRows rows of kDim floats to [kRows][kDim + kPad]; all threads of the block take part.
template <int kRows, int kDim>
__device__ void load_tile(float* tile, const float* global, std::int64_t pitch) {
  constexpr int kVectors = kDim / 4;
  for (int vector = static_cast<int>(threadIdx.y * kLanes + threadIdx.x); vector < kRows * kVectors;
       vector += kWarps * kLanes) {
    const int row = vector / kVectors, c = vector % kVectors * 4;
    *reinterpret_cast<float4*>(tile + row * (kDim + kPad) + c) = four(global + row * pitch + c);
  }
}

template <int kDim, int kBr, int kBc>
constexpr int kSharedFloats = (kBr + 2 * kBc) * (kDim + kPad) + kBr*(kBc + kPad);  // Q, K, V and P

template <int kDim, int kBr, int kBc>
__global__ void __launch_bounds__(kWarps* kLanes) attend(Tensors t) {
  extern __shared__ __align__(16) float memory[];
  constexpr int kStride = kDim + kPad, kWidth = kBc + kPad;
  constexpr int kRows = kBr / kWarps, kKeys = kBc / kLanes, kColumns = kDim / kLanes;  // per thread
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  float *q = memory, *k = q + kBr * kStride, *v = k + kBc * kStride, *p = v + kBc * kStride;
  float *my_q = q + y * kRows * kStride, *my_p = p + y * kRows * kWidth;
  const std::int64_t batch_row = std::int64_t{blockIdx.y} * t.rows,
                     first_row = batch_row + std::int64_t{blockIdx.x} * kBr;
  load_tile<kBr, kDim>(q, t.q + first_row * t.pitch, t.pitch);
  float m[kRows], l[kRows] = {}, o[kRows][kColumns] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r) m[r] = -INFINITY;
  for (int j = 0; j < t.rows; j += kBc) {
    __syncthreads();
    load_tile<kBc, kDim>(k, t.k + (batch_row + j) * t.pitch, t.pitch);
    load_tile<kBc, kDim>(v, t.v + (batch_row + j) * t.pitch, t.pitch);
    __syncthreads();

    float score[kRows][kKeys] = {};  // key x + 32 * n
#pragma unroll 2
    for (int c = 0; c < kDim; c += 4) {
      float4 key[kKeys];
#pragma unroll
      for (int n = 0; n < kKeys; ++n) key[n] = four(k + (x + kLanes * n) * kStride + c);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float4 row = four(my_q + r * kStride + c);
#pragma unroll
        for (int n = 0; n < kKeys; ++n) score[r][n] += dot(row, key[n]);
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float largest = score[r][0], sum = 0;
#pragma unroll
      for (int n = 1; n < kKeys; ++n) largest = fmaxf(largest, score[r][n]);
      const float highest = fmaxf(m[r], warp_max(largest) * t.scale), before = expf(m[r] - highest);
#pragma unroll
      for (int n = 0; n < kKeys; ++n) {
        const float probability = expf(score[r][n] * t.scale - highest);
        my_p[r * kWidth + x + kLanes * n] = probability;
        sum += probability;
      }
      l[r] = before * l[r] + warp_sum(sum);
      m[r] = highest;
#pragma unroll
      for (int h = 0; h < kColumns; ++h) o[r][h] *= before;
    }
    __syncwarp();  // only this warp writes and reads these rows of P
#pragma unroll 2
    for (int key = 0; key < kBc; key += 4) {
      float4 value[kColumns];
#pragma unroll
      for (int h = 0; h < kColumns; ++h) {
        const float* column = v + key * kStride + h * kLanes + x;
        value[h] = {column[0], column[kStride], column[2 * kStride], column[3 * kStride]};
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float4 probabilities = four(my_p + r * kWidth + key);
#pragma unroll
        for (int h = 0; h < kColumns; ++h) o[r][h] += dot(probabilities, value[h]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int h = 0; h < kColumns; ++h) {
      t.o[(first_row + y * kRows + r) * t.pitch + h * kLanes + x] = o[r][h] / l[r];
    }
  }
}

using Kernel = void (*)(Tensors);

template <int kBr, int kBc>
Kernel kernel_of(int dim) {
  return dim == 32 ? attend<32, kBr, kBc> : attend<64, kBr, kBc>;
}

template <int kBr, int kBc>
std::size_t bytes_of(int dim) {
  return sizeof(float) *
         static_cast<std::size_t>(dim == 32 ? kSharedFloats<32, kBr, kBc> : kSharedFloats<64, kBr, kBc>);
}

template <int kBr, int kBc>
Split run_tiles(const RungProblem& problem, float* o) {
  return run_in_turn(problem, o, RowPitch::pitched, [](const Tensors& t) -> Launches {
    const std::size_t bytes = bytes_of<kBr, kBc>(t.dim);
    const Kernel kernel = kernel_of<kBr, kBc>(t.dim);
    STROBE_CUDA_CHECK(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
    const dim3 grid(static_cast<unsigned>(t.rows / kBr), static_cast<unsigned>(t.batch));
    kernel<<<grid, dim3(kLanes, kWarps), bytes>>>(t);
    return {.count = 1, .shared_bytes = bytes};
  });
}

template <int kBr, int kBc>
TileFacts facts_of(int dim) {
  int device = 0;
  STROBE_CUDA_CHECK(cudaGetDevice(&device));
  TileFacts facts{.shared_bytes = bytes_of<kBr, kBc>(dim), .threads = kWarps * kLanes};
  const int most = cuda::attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  const Kernel kernel = kernel_of<kBr, kBc>(dim);
  cudaFuncAttributes attributes{};
  STROBE_CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
  facts.registers = attributes.numRegs;
  if (facts.shared_bytes > static_cast<std::size_t>(most)) return facts;
  STROBE_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(facts.shared_bytes)));
  STROBE_CUDA_CHECK(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&facts.blocks, kernel, facts.threads, facts.shared_bytes));
  const int threads = cuda::attribute(cudaDevAttrMaxThreadsPerMultiProcessor, device);
  facts.occupancy = static_cast<double>(facts.blocks) * facts.threads / threads;
  return facts;
}

template <int kBr, int kBc>
constexpr Tiles kTilesOf{kBr, kBc, run_tiles<kBr, kBc>, facts_of<kBr, kBc>};

}  // namespace

std::span<const Tiles> tiles() {
  static constexpr Tiles kAll[] = {kTilesOf<16, 32>,  kTilesOf<16, 64>,  kTilesOf<16, 128>, kTilesOf<32, 32>,
                                   kTilesOf<32, 64>,  kTilesOf<32, 128>, kTilesOf<64, 32>,  kTilesOf<64, 64>,
                                   kTilesOf<64, 128>, kTilesOf<128, 32>, kTilesOf<128, 64>, kTilesOf<128, 128>};
  return kAll;
}

}  // namespace strobe::lab
