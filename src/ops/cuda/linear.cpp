// Implements gemm() of launch.h with cuBLASLt. The heuristic runs once per shape, and its result is cached with the
// descriptors. With ExecutionContext::searches_tiles, unless `deterministic` is set, the heuristic's proposals and
// other tile sizes are timed once per shape and the fastest is kept. The choice, and with it the order of sums, may
// change from run to run.
//
// Tensor cores read TF32 operands only K-major (contiguous along k). If neither operand is K-major, as in a weight
// gradient, cuBLASLt's kernels transpose both tile by tile and reach half the rate (docs/training.md). This file
// therefore makes transposed copies first if that is cheap compared with the matmul and the workspace has room.
#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/fail.h"
#include "device/cuda/check.h"
#include "device/device_info.h"
#include "ops/cuda/algorithms.h"
#include "ops/cuda/cublas_lt_library.h"
#include "ops/cuda/launch.h"

namespace strobe::ops::cuda {

namespace {

cudaDataType_t type_of(DType dtype) {
  return dtype == DType::fp32 ? CUDA_R_32F : dtype == DType::fp16 ? CUDA_R_16F : CUDA_R_16BF;
}

unsigned alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  unsigned bytes = 256;
  while (address % bytes != 0) bytes /= 2;
  return bytes;
}

// Returns the alignment in bytes of every row of every matrix of a batch.
unsigned alignment_of(const void* pointer, DType dtype, std::int64_t row_stride, std::int64_t matrix_stride) {
  const auto strides = static_cast<std::uintptr_t>(row_stride | matrix_stride) * size_of(dtype);
  return alignment_of(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(pointer) | strides));
}

void check_inner_sizes(const Matmul& p) {
  const std::int64_t a = p.a.transposed ? p.a.rows : p.a.cols, b = p.b.transposed ? p.b.cols : p.b.rows;
  if (a != b) fail(ErrorCode::invalid_argument, "ops: a matmul has inner sizes {} and {}; they must be equal", a, b);
}

Shape shape_of(const ExecutionContext& execution, const Matmul& p) {
  Shape s;
  s.m = p.b.transposed ? p.b.rows : p.b.cols;
  s.n = p.a.transposed ? p.a.cols : p.a.rows;
  s.k = p.a.transposed ? p.a.rows : p.a.cols;
  s.lda = p.b.row_stride > 0 ? p.b.row_stride : p.b.cols;
  s.ldb = p.a.row_stride > 0 ? p.a.row_stride : p.a.cols;
  s.ldd = p.d_row_stride > 0 ? p.d_row_stride : s.m;
  s.matrices = p.matrices;
  s.a_stride = p.b.matrix_stride;
  s.b_stride = p.a.matrix_stride;
  s.d_stride = p.d_matrix_stride;
  s.a_transposed = p.b.transposed;
  s.b_transposed = p.a.transposed;
  s.in = p.in;
  s.out = p.out;
  s.adds = p.addend != nullptr;
  s.tf32 = execution.tf32 && p.in == DType::fp32;
  s.timed = !execution.deterministic && execution.searches_tiles &&
            p.addend != p.d;  // each timed run would change an addend that is also the output
  s.bias_alignment = p.bias ? alignment_of(p.bias) : 0;
  s.alignment = {alignment_of(p.b.data, p.in, p.b.row_stride, p.b.matrix_stride),
                 alignment_of(p.a.data, p.in, p.a.row_stride, p.a.matrix_stride),
                 alignment_of(p.addend ? p.addend : p.d, p.out, p.d_row_stride, p.d_matrix_stride),
                 alignment_of(p.d, p.out, p.d_row_stride, p.d_matrix_stride)};
  s.workspace = std::min(execution.workspace_bytes, kWorkspaceBytes);
  STROBE_CUDA_CHECK(cudaGetDevice(&s.device));
  return s;
}

cublasLtMatrixLayout_t layout(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t lead) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublas_lt().layout_create(&made, type_of(dtype), static_cast<std::uint64_t>(rows),
                                  static_cast<std::uint64_t>(cols), lead),
        "cublasLtMatrixLayoutCreate");
  return made;
}

void make_batch(cublasLtMatrixLayout_t layout, std::int64_t matrices, std::int64_t stride) {
  const auto count = static_cast<std::int32_t>(matrices);
  check(cublas_lt().layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
        "cublasLtMatrixLayoutSetAttribute");
  check(cublas_lt().layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
        "cublasLtMatrixLayoutSetAttribute");
}

void point_to_bias(cublasLtMatmulDesc_t matmul, const void* bias) {
  check(cublas_lt().descriptor_set(matmul, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
        "cublasLtMatmulDescSetAttribute");
}

// Creates the descriptors. `bias` must have the alignment s.bias_alignment, which the heuristic considers.
Plan make_plan(const Shape& s, const void* bias) {
  Plan plan;
  const cublasComputeType_t compute = s.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check(cublas_lt().descriptor_create(&plan.matmul, compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
  const auto transpose = [&](cublasLtMatmulDescAttributes_t which, bool transposed) {
    const cublasOperation_t operation = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(cublas_lt().descriptor_set(plan.matmul, which, &operation, sizeof operation),
          "cublasLtMatmulDescSetAttribute");
  };
  transpose(CUBLASLT_MATMUL_DESC_TRANSA, s.a_transposed);
  transpose(CUBLASLT_MATMUL_DESC_TRANSB, s.b_transposed);
  if (bias) {  // one element per row of cuBLASLt's d, which is a column of ours
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    check(cublas_lt().descriptor_set(plan.matmul, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue),
          "cublasLtMatmulDescSetAttribute");
    point_to_bias(plan.matmul, bias);
  }
  plan.a = s.a_transposed ? layout(s.in, s.k, s.m, s.lda) : layout(s.in, s.m, s.k, s.lda);
  plan.b = s.b_transposed ? layout(s.in, s.n, s.k, s.ldb) : layout(s.in, s.k, s.n, s.ldb);
  plan.d = layout(s.out, s.m, s.n, s.ldd);
  if (s.matrices > 1) {
    make_batch(plan.a, s.matrices, s.a_stride);
    make_batch(plan.b, s.matrices, s.b_stride);
    make_batch(plan.d, s.matrices, s.d_stride);
  }
  return plan;
}

cublasStatus_t launch(cublasLtHandle_t handle, const ExecutionContext& execution, const Matmul& p, const Plan& plan) {
  const float alpha = p.scale, beta = p.addend ? 1 : 0;
  cublasLtMatmulDescOpaque_t matmul = *plan.matmul;  // a copy, because other threads launch the plan with other
                                                     // biases
  if (p.bias) point_to_bias(&matmul, p.bias);
  return cublas_lt().matmul(handle, &matmul, &alpha, p.b.data, plan.a, p.a.data, plan.b, &beta,
                            p.addend ? p.addend : p.d, plan.d, p.d, plan.d, &plan.algorithm, execution.workspace,
                            std::min(execution.workspace_bytes, kWorkspaceBytes),
                            static_cast<cudaStream_t>(execution.stream));
}

bool is_capturing(const ExecutionContext& execution) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  STROBE_CUDA_CHECK(cudaStreamIsCapturing(static_cast<cudaStream_t>(execution.stream), &capture));
  return capture != cudaStreamCaptureStatusNone;
}

// Memory that is written before a timed launch to flush the L2 cache. Operands are then read from GPU memory, as in a
// training step. A tile size that is fast with operands in the cache may be slow with operands in GPU memory. `memory`
// is null if the allocation fails.
struct CacheFlush {
  void* memory = nullptr;
  std::size_t bytes = 0;

  CacheFlush() : bytes(2 * current_gpu_info().l2_bytes) {
    if (cudaMalloc(&memory, bytes) == cudaSuccess) return;
    memory = nullptr;
    cudaGetLastError();  // clears the error, so that a later check does not report it
  }
  CacheFlush(const CacheFlush&) = delete;
  ~CacheFlush() { cudaFree(memory); }
};

class Stopwatch {
 public:
  Stopwatch(cublasLtHandle_t handle, const ExecutionContext& execution, const Matmul& matmul)
      : handle_(handle), execution_(execution), matmul_(matmul) {
    STROBE_CUDA_CHECK(cudaEventCreate(&begin_));
    STROBE_CUDA_CHECK(cudaEventCreate(&end_));
  }
  Stopwatch(const Stopwatch&) = delete;
  ~Stopwatch() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }

  // Returns the minimum time in milliseconds of `rounds` launches, or infinity if cuBLASLt cannot run the plan.
  float time(const Plan& plan, int rounds) {
    const auto stream = static_cast<cudaStream_t>(execution_.stream);
    constexpr float kRefused = std::numeric_limits<float>::infinity();
    float least = kRefused;
    if (launch(handle_, execution_, matmul_, plan) != CUBLAS_STATUS_SUCCESS) return kRefused;  // loads the kernel
    for (int round = 0; round < rounds; ++round) {
      if (flush_.memory) STROBE_CUDA_CHECK(cudaMemsetAsync(flush_.memory, 0, flush_.bytes, stream));
      STROBE_CUDA_CHECK(cudaEventRecord(begin_, stream));
      if (launch(handle_, execution_, matmul_, plan) != CUBLAS_STATUS_SUCCESS) return kRefused;
      STROBE_CUDA_CHECK(cudaEventRecord(end_, stream));
      STROBE_CUDA_CHECK(cudaEventSynchronize(end_));
      float milliseconds = 0;
      STROBE_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin_, end_));
      least = std::min(least, milliseconds);
    }
    return least;
  }

 private:
  cublasLtHandle_t handle_;
  const ExecutionContext& execution_;
  const Matmul& matmul_;
  CacheFlush flush_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// Times all algorithms with a few launches each, then the fastest ones with more, and returns the fastest.
cublasLtMatmulAlgo_t fastest(const Algorithms& algorithms, Plan plan, Stopwatch& watch) {
  constexpr int kFirst = 2, kAgain = 10;
  constexpr std::size_t kFinalists = 8;
  std::vector<std::pair<float, std::size_t>> times;
  const auto time = [&](std::size_t i, int rounds) {
    plan.algorithm = algorithms[i];
    return watch.time(plan, rounds);
  };
  for (std::size_t i = 0; i < algorithms.size(); ++i) times.emplace_back(time(i, kFirst), i);
  std::sort(times.begin(), times.end());
  times.resize(std::min(times.size(), kFinalists));
  for (auto& [milliseconds, i] : times) milliseconds = time(i, kAgain);
  return algorithms[std::min_element(times.begin(), times.end())->second];
}

cublasLtMatmulAlgo_t choose(cublasLtHandle_t handle, const ExecutionContext& execution, const Matmul& p,
                            const Shape& shape, const Plan& plan) {
  Algorithms algorithms = ask_heuristic(handle, shape, plan);
  if (!shape.timed || is_capturing(execution)) return algorithms.front();
  const Algorithms others = vary_tiles(handle, shape, plan, algorithms.front());
  algorithms.insert(algorithms.end(), others.begin(), others.end());
  if (algorithms.size() == 1) return algorithms.front();
  Stopwatch watch(handle, execution, p);
  return fastest(algorithms, plan, watch);
}

struct Known {
  std::mutex mutex;
  std::map<int, cublasLtHandle_t> handles;  // key: GPU
  std::map<Shape, Plan> plans;
};

Known& known() {
  static auto* const one = new Known;
  return *one;
}

struct Prepared {
  cublasLtHandle_t handle;
  const Plan* plan;
};

Prepared prepare(const ExecutionContext& execution, const Matmul& p, const Shape& shape) {
  const std::lock_guard lock(known().mutex);
  cublasLtHandle_t& handle = known().handles[shape.device];
  if (!handle) check(cublas_lt().create(&handle), "cublasLtCreate");
  auto found = known().plans.find(shape);
  if (found == known().plans.end()) {
    Plan plan = make_plan(shape, p.bias);
    plan.algorithm = choose(handle, execution, p, shape, plan);
    found = known().plans.emplace(shape, plan).first;
  }
  return {handle, &found->second};  // std::map does not move its elements
}

// Transposes both operands to K-major copies in the workspace, after the kWorkspaceBytes of cuBLASLt, and returns the
// matmul of the copies. Returns the matmul unchanged if copies are not needed, do not pay off or do not fit.
Matmul along_k(const ExecutionContext& execution, Matmul p) {
  const bool is_dense = p.a.row_stride == 0 && p.b.row_stride == 0;
  const bool across = is_dense && execution.tf32 && p.in == DType::fp32 && p.a.transposed && !p.b.transposed;
  const std::size_t bytes = across ? transposed_bytes(p.a.rows, p.a.cols, p.b.cols) : 0;
  if (bytes == 0 || execution.workspace_bytes < kWorkspaceBytes + bytes) return p;
  char* const copies = static_cast<char*>(execution.workspace) + kWorkspaceBytes;
  const auto copy_transposed = [&](Factor& factor, void* to) {
    transpose(execution, static_cast<const float*>(factor.data), factor.rows, factor.cols, static_cast<float*>(to));
    factor = {to, factor.cols, factor.rows, !factor.transposed};
  };
  copy_transposed(p.a, copies);
  copy_transposed(p.b, copies + aligned_bytes(p.a.rows * p.a.cols));
  return p;
}

}  // namespace

void gemm(const ExecutionContext& execution, const Matmul& matmul) {
  check_inner_sizes(matmul);
  const Matmul p = along_k(execution, matmul);
  const Shape shape = shape_of(execution, p);
  if (shape.m == 0 || shape.n == 0 || shape.k == 0) {
    fail(ErrorCode::invalid_argument, "ops: a matmul on CUDA has sizes [{} x {}] [{} x {}]; each must be at least 1",
         shape.n, shape.k, shape.k, shape.m);
  }
  const auto [handle, plan] = prepare(execution, p, shape);
  check(launch(handle, execution, p, *plan), "cublasLtMatmul");
}

}  // namespace strobe::ops::cuda
