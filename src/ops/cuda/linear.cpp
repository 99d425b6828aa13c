// Products by cuBLASLt: the heuristic is asked once for each shape, and its answer kept with the descriptors. Where the
// place need not be deterministic, its first answers are timed once, and the fastest is kept: which one that is may
// change from run to run, and with it the order of sums.
// Tensor cores read tf32 along k alone. Where both operands lie across it, as in a weight's gradient, cuBLASLt's
// kernels turn them around piece by piece and reach half the rate (docs/notes/2026-11-15-lm-cuda.md): they are copied
// first, transposed, where that is little beside the product and the workspace has the room.
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "core/fail.h"
#include "device/cuda/check.h"
#include "ops/cuda/launch.h"

namespace strobe::ops::cuda {

namespace {

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::out_of_memory : ErrorCode::runtime, "cuda: {} failed: {} ({})",
       what, cublasGetStatusString(status), cublasGetStatusName(status));
}

cudaDataType_t type_of(DType dtype) {
  return dtype == DType::fp32 ? CUDA_R_32F : dtype == DType::fp16 ? CUDA_R_16F : CUDA_R_16BF;
}

// cuBLASLt reads column by column, where our matrices are their transposes: d^T = b^T a^T. So its A is our b.
struct Shape {
  std::int64_t m = 0, n = 0, k = 0;  // columns of d, rows of d, what is summed over
  std::int64_t lda = 0, ldb = 0;
  bool a_transposed = false, b_transposed = false;
  DType in = DType::fp32, out = DType::fp32;
  bool adds = false, tf32 = false, timed = false;
  unsigned bias_alignment = 0;          // bytes; 0: no bias
  std::array<unsigned, 4> alignment{};  // bytes, of a, b, c, d
  std::size_t workspace = 0;
  int device = 0;

  auto operator<=>(const Shape&) const = default;
};

unsigned alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  unsigned bytes = 256;
  while (address % bytes != 0) bytes /= 2;
  return bytes;
}

void check_inner_sizes(const Product& p) {
  const std::int64_t a = p.a.transposed ? p.a.rows : p.a.cols, b = p.b.transposed ? p.b.cols : p.b.rows;
  if (a != b) fail(ErrorCode::invalid_argument, "ops: a product of inner sizes {} and {}", a, b);
}

Shape shape_of(const Place& place, const Product& p) {
  Shape s;
  s.m = p.b.transposed ? p.b.rows : p.b.cols;
  s.n = p.a.transposed ? p.a.cols : p.a.rows;
  s.k = p.a.transposed ? p.a.rows : p.a.cols;
  s.lda = p.b.cols;
  s.ldb = p.a.cols;
  s.a_transposed = p.b.transposed;
  s.b_transposed = p.a.transposed;
  s.in = p.in;
  s.out = p.out;
  s.adds = p.addend != nullptr;
  s.tf32 = place.tf32 && p.in == DType::fp32;
  s.timed = !place.deterministic && p.addend != p.d;  // what is added to its own addend cannot be run twice
  s.bias_alignment = p.bias ? alignment_of(p.bias) : 0;
  s.alignment = {alignment_of(p.b.data), alignment_of(p.a.data), alignment_of(p.addend ? p.addend : p.d),
                 alignment_of(p.d)};
  s.workspace = std::min(place.workspace_bytes, kWorkspaceBytes);
  STROBE_CUDA_CHECK(cudaGetDevice(&s.device));
  return s;
}

// Kept for the process's life, as at exit the driver may be gone before a destructor runs.
struct Plan {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

cublasLtMatrixLayout_t layout(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t lead) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, type_of(dtype), static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(cols), lead),
        "cublasLtMatrixLayoutCreate");
  return made;
}

template <class Value>
void prefer(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t which, const Value& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, which, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

// The best first. Sums that are split are added up in fp32, in the workspace, in one order.
std::vector<cublasLtMatmulAlgo_t> ask_heuristic(cublasLtHandle_t handle, const Shape& s, const Plan& plan) {
  cublasLtMatmulPreference_t preference = nullptr;
  check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, s.workspace);
  prefer(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  constexpr cublasLtMatmulPreferenceAttributes_t kAlignments[] = {
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
  for (std::size_t i = 0; i < 4; ++i) prefer(preference, kAlignments[i], std::uint32_t{s.alignment[i]});
  constexpr int kTimed = 32;
  std::array<cublasLtMatmulHeuristicResult_t, kTimed> results{};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, plan.product, plan.a, plan.b, plan.d, plan.d, preference, s.timed ? kTimed : 1, results.data(), &found);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && found == 0)) {
    fail(ErrorCode::unsupported, "cuda: cuBLASLt has no product [{} x {}] [{} x {}] of {} to {}{}", s.n, s.k, s.k, s.m,
         name_of(s.in), name_of(s.out), s.bias_alignment > 0 ? " with a bias" : "");
  }
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < found; ++i) {
    if (results[static_cast<std::size_t>(i)].state == CUBLAS_STATUS_SUCCESS) {
      algorithms.push_back(results[static_cast<std::size_t>(i)].algo);
    }
  }
  if (algorithms.empty()) check(results[0].state, "cublasLtMatmulAlgoGetHeuristic");
  return algorithms;
}

void point_to_bias(cublasLtMatmulDesc_t product, const void* bias) {
  check(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
        "cublasLtMatmulDescSetAttribute");
}

// bias: one that is aligned as the shape says, for the heuristic to look at.
Plan make_plan(const Shape& s, const void* bias) {
  Plan plan;
  const cublasComputeType_t compute = s.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check(cublasLtMatmulDescCreate(&plan.product, compute, CUDA_R_32F), "cublasLtMatmulDescCreate");
  const auto transpose = [&](cublasLtMatmulDescAttributes_t which, bool transposed) {
    const cublasOperation_t operation = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(cublasLtMatmulDescSetAttribute(plan.product, which, &operation, sizeof operation),
          "cublasLtMatmulDescSetAttribute");
  };
  transpose(CUBLASLT_MATMUL_DESC_TRANSA, s.a_transposed);
  transpose(CUBLASLT_MATMUL_DESC_TRANSB, s.b_transposed);
  if (bias) {  // one for each row of cuBLASLt's d, which is our column
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    check(cublasLtMatmulDescSetAttribute(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue),
          "cublasLtMatmulDescSetAttribute");
    point_to_bias(plan.product, bias);
  }
  plan.a = s.a_transposed ? layout(s.in, s.k, s.m, s.lda) : layout(s.in, s.m, s.k, s.lda);
  plan.b = s.b_transposed ? layout(s.in, s.n, s.k, s.ldb) : layout(s.in, s.k, s.n, s.ldb);
  plan.d = layout(s.out, s.m, s.n, s.m);
  return plan;
}

cublasStatus_t launch(cublasLtHandle_t handle, const Place& place, const Product& p, const Plan& plan) {
  const float one = 1, beta = p.addend ? 1 : 0;
  cublasLtMatmulDescOpaque_t product = *plan.product;  // its own: other threads launch the plan with other biases
  if (p.bias) point_to_bias(&product, p.bias);
  return cublasLtMatmul(handle, &product, &one, p.b.data, plan.a, p.a.data, plan.b, &beta, p.addend ? p.addend : p.d,
                        plan.d, p.d, plan.d, &plan.algorithm, place.workspace,
                        std::min(place.workspace_bytes, kWorkspaceBytes), static_cast<cudaStream_t>(place.stream));
}

bool is_capturing(const Place& place) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  STROBE_CUDA_CHECK(cudaStreamIsCapturing(static_cast<cudaStream_t>(place.stream), &capture));
  return capture != cudaStreamCaptureStatusNone;
}

// Milliseconds of a launch, the best of a few; infinity where cuBLASLt refuses.
float time_launches(cublasLtHandle_t handle, const Place& place, const Product& p, const Plan& plan) {
  constexpr int kRounds = 3, kLaunches = 4;
  const auto stream = static_cast<cudaStream_t>(place.stream);
  cudaEvent_t begin = nullptr, end = nullptr;
  STROBE_CUDA_CHECK(cudaEventCreate(&begin));
  STROBE_CUDA_CHECK(cudaEventCreate(&end));
  float best = std::numeric_limits<float>::infinity();
  bool runs = launch(handle, place, p, plan) == CUBLAS_STATUS_SUCCESS;  // loads the kernel
  for (int round = 0; round < kRounds && runs; ++round) {
    STROBE_CUDA_CHECK(cudaEventRecord(begin, stream));
    for (int i = 0; i < kLaunches; ++i) runs &= launch(handle, place, p, plan) == CUBLAS_STATUS_SUCCESS;
    STROBE_CUDA_CHECK(cudaEventRecord(end, stream));
    STROBE_CUDA_CHECK(cudaEventSynchronize(end));
    float milliseconds = 0;
    STROBE_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    if (runs) best = std::min(best, milliseconds / kLaunches);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return best;
}

cublasLtMatmulAlgo_t choose(cublasLtHandle_t handle, const Place& place, const Product& p, const Shape& shape,
                            Plan plan) {
  const std::vector<cublasLtMatmulAlgo_t> algorithms = ask_heuristic(handle, shape, plan);
  if (algorithms.size() == 1 || is_capturing(place)) return algorithms.front();
  cublasLtMatmulAlgo_t fastest = algorithms.front();
  float least = std::numeric_limits<float>::infinity();
  for (const cublasLtMatmulAlgo_t& algorithm : algorithms) {
    plan.algorithm = algorithm;
    const float time = time_launches(handle, place, p, plan);
    if (time < least) {
      least = time;
      fastest = algorithm;
    }
  }
  return fastest;
}

struct Known {
  std::mutex mutex;
  std::map<int, cublasLtHandle_t> handles;  // by GPU
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

Prepared prepare(const Place& place, const Product& p, const Shape& shape) {
  const std::lock_guard lock(known().mutex);
  cublasLtHandle_t& handle = known().handles[shape.device];
  if (!handle) check(cublasLtCreate(&handle), "cublasLtCreate");
  auto found = known().plans.find(shape);
  if (found == known().plans.end()) {
    Plan plan = make_plan(shape, p.bias);
    plan.algorithm = choose(handle, place, p, shape, plan);
    found = known().plans.emplace(shape, plan).first;
  }
  return {handle, &found->second};  // which a map does not move
}

// The same product with both operands along k, in the workspace behind what products use; as it is where that does not
// pay.
Product along_k(const Place& place, Product p) {
  const bool across = place.tf32 && p.in == DType::fp32 && p.a.transposed && !p.b.transposed;
  const std::size_t bytes = across ? transposed_bytes(p.a.rows, p.a.cols, p.b.cols) : 0;
  if (bytes == 0 || place.workspace_bytes < kWorkspaceBytes + bytes) return p;
  char* const behind = static_cast<char*>(place.workspace) + kWorkspaceBytes;
  const auto turn = [&](Factor& factor, void* to) {
    transpose(place, static_cast<const float*>(factor.data), factor.rows, factor.cols, static_cast<float*>(to));
    factor = {to, factor.cols, factor.rows, !factor.transposed};
  };
  turn(p.a, behind);
  turn(p.b, behind + aligned_bytes(p.a.rows * p.a.cols));
  return p;
}

}  // namespace

void multiply(const Place& place, const Product& product) {
  check_inner_sizes(product);
  const Product p = along_k(place, product);
  const Shape shape = shape_of(place, p);
  if (shape.m == 0 || shape.n == 0 || shape.k == 0) {
    fail(ErrorCode::invalid_argument, "ops: a product [{} x {}] [{} x {}] on CUDA; valid: at least 1 each", shape.n,
         shape.k, shape.k, shape.m);
  }
  const auto [handle, plan] = prepare(place, p, shape);
  check(launch(handle, place, p, *plan), "cublasLtMatmul");
}

}  // namespace strobe::ops::cuda
