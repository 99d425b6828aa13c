// Rung `five-kernels`: the five steps of rung `sequential` as five kernels, on tensors in GPU memory.
//
// As in the source report, each kernel is launched as <<<1, 1>>>. One GPU thread computes one step of a tile, and a
// tile takes five launches. This rung is not faster, but shows how slow a single GPU thread is. S and the maxima and
// sums of a tile are in global memory between the steps.
#include "lab/cuda/host.h"
#include "lab/cuda/runs.h"

namespace strobe::lab {
namespace {

constexpr int kTile = 32;

// 1. S = Q K^T * scale; q, k [32, dim], s [32, 32]
__global__ void scale_scores(const float* q, const float* k, float* s, int dim, float scale) {
  for (int i = 0; i < kTile; ++i) {
    for (int j = 0; j < kTile; ++j) {
      float sum = 0;
      for (int c = 0; c < dim; ++c) sum += q[i * dim + c] * k[j * dim + c];
      s[i * kTile + j] = sum * scale;
    }
  }
}

// 2. m_i = max_j S_ij
__global__ void row_max(const float* s, float* m) {
  for (int i = 0; i < kTile; ++i) {
    m[i] = s[i * kTile];
    for (int j = 1; j < kTile; ++j) m[i] = fmaxf(m[i], s[i * kTile + j]);
  }
}

// 3. P_ij = exp(S_ij - m_i), overwriting S
__global__ void exponentiate(float* s, const float* m) {
  for (int i = 0; i < kTile; ++i) {
    for (int j = 0; j < kTile; ++j) s[i * kTile + j] = expf(s[i * kTile + j] - m[i]);
  }
}

// 4. l_i = sum_j P_ij
__global__ void row_sum(const float* s, float* l) {
  for (int i = 0; i < kTile; ++i) {
    l[i] = 0;
    for (int j = 0; j < kTile; ++j) l[i] += s[i * kTile + j];
  }
}

struct Running {
  float *m, *l, *o;  // [32], [32], [32, dim]
};

// 5. Updates the running m, l and O with the tile. `first`: this is the first tile of keys, so m, l and O have no
// values yet.
__global__ void update(const float* p, const float* tile_m, const float* tile_l, const float* v, Running running,
                       int dim, bool first) {
  for (int i = 0; i < kTile; ++i) {
    const float highest = first ? tile_m[i] : fmaxf(running.m[i], tile_m[i]);
    const float before = first ? 0 : running.l[i] * expf(running.m[i] - highest), now = expf(tile_m[i] - highest);
    const float sum = before + now * tile_l[i];
    for (int c = 0; c < dim; ++c) {
      float pv = 0;
      for (int j = 0; j < kTile; ++j) pv += p[i * kTile + j] * v[j * dim + c];
      const float old = first ? 0 : before * running.o[i * dim + c];
      running.o[i * dim + c] = (old + now * pv) / sum;
    }
    running.m[i] = highest;
    running.l[i] = sum;
  }
}

}  // namespace

Split run_five_kernels(const RungProblem& problem, float* o) {
  return run_in_turn(problem, o, RowPitch::packed, [](const Tensors& t) {
    Launches launches;
    float* scratch = nullptr;  // S or P [32, 32], then m [32] and l [32] of the tile
    STROBE_CUDA_CHECK(cudaMalloc(&scratch, (kTile * kTile + 2 * kTile) * sizeof(float)));
    float *s = scratch, *m = s + kTile * kTile, *l = m + kTile;
    for (int b = 0; b < t.batch; ++b) {
      for (int j = 0; j < t.rows; j += kTile) {
        for (int i = 0; i < t.rows; i += kTile) {
          const std::int64_t row = std::int64_t{b} * t.rows + i, key = std::int64_t{b} * t.rows + j;
          scale_scores<<<1, 1>>>(t.q + row * t.dim, t.k + key * t.dim, s, t.dim, t.scale);
          row_max<<<1, 1>>>(s, m);
          exponentiate<<<1, 1>>>(s, m);
          row_sum<<<1, 1>>>(s, l);
          update<<<1, 1>>>(s, m, l, t.v + key * t.dim, {t.m + row, t.l + row, t.o + row * t.dim}, t.dim, j == 0);
          launches.count += 5;
        }
      }
    }
    STROBE_CUDA_CHECK(cudaGetLastError());
    STROBE_CUDA_CHECK(cudaFree(scratch));  // waits for the kernels
    return launches;
  });
}

}  // namespace strobe::lab
