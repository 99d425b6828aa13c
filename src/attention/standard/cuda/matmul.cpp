// Implements matmul.h with cublasGemmStridedBatchedEx. One call computes the matrices along one stride; a host loop
// runs over the other strides.
#include "attention/standard/cuda/matmul.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <vector>

#include "attention/standard/cuda/cublas_library.h"
#include "core/fail.h"
#include "device/cuda/check.h"

namespace strobe::standard {

namespace {

constexpr std::int64_t kMostPerCall = 65535;  // matrices per call; more would exceed the grid of some cuBLAS kernels

// Throws if a cuBLAS call failed. cuBLAS reports an error of earlier work as its own internal error, so this queries
// the stream first.
void check(cublasStatus_t status, const char* what, void* stream) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  cudaError_t earlier = cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &capture);
  if (earlier == cudaSuccess && capture == cudaStreamCaptureStatusNone) {
    earlier = cudaStreamQuery(static_cast<cudaStream_t>(stream));
  }
  if (cuda::is_asynchronous(earlier)) cuda::fail_earlier(earlier);
  cudaGetLastError();
  fail(status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::out_of_memory : ErrorCode::runtime, "cuda: {} failed: {} ({})",
       what, cublas_library().status_text(status), cublas_library().status_name(status));
}

// Idle cuBLAS handles of each GPU.
struct Pool {
  std::mutex mutex;
  std::map<int, std::vector<cublasHandle_t>> idle;
};

Pool& pool() {
  static auto* const one = new Pool;  // never destroyed: at exit the driver may be gone before a destructor runs
  return *one;
}

// Creates a handle. This allocates memory, which only the relaxed mode allows while the caller captures a graph.
cublasHandle_t create(void* stream) {
  const CublasLibrary& cublas = cublas_library();  // may throw, so load it before changing the mode
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  STROBE_CUDA_CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
  cublasHandle_t handle = nullptr;
  const cublasStatus_t status = cublas.create(&handle);
  STROBE_CUDA_CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
  check(status, "cublasCreate", stream);
  return handle;
}

cublasHandle_t take(int device, void* stream) {
  {
    const std::lock_guard lock(pool().mutex);
    std::vector<cublasHandle_t>& idle = pool().idle[device];
    if (!idle.empty()) {
      cublasHandle_t handle = idle.back();
      idle.pop_back();
      return handle;
    }
  }
  return create(stream);
}

void give_back(int device, cublasHandle_t handle) {
  const std::lock_guard lock(pool().mutex);
  pool().idle[device].push_back(handle);
}

cudaDataType type_of(DType dtype) {
  return dtype == DType::fp32 ? CUDA_R_32F : dtype == DType::fp16 ? CUDA_R_16F : CUDA_R_16BF;
}

// One level of the loop over matrices: the number of iterations and the strides of a, b and c.
struct Level {
  std::int64_t count, a, b, c;
};

// Returns three levels. Adjacent levels are merged if one level can step through the matrices of both; unused levels
// have count 1. The largest level is last.
std::vector<Level> levels_of(const Matmul& p) {
  const Level all[] = {{p.batch, p.a.batch, p.b.batch, p.c.batch},
                       {p.heads, p.a.head, p.b.head, p.c.head},
                       {p.members, p.a.member, p.b.member, p.c.member}};
  std::vector<Level> levels;
  for (const Level& level : all) {
    if (level.count == 1) continue;
    if (!levels.empty()) {
      Level& outer = levels.back();
      if (outer.a == level.count * level.a && outer.b == level.count * level.b && outer.c == level.count * level.c) {
        outer = {outer.count * level.count, level.a, level.b, level.c};
        continue;
      }
    }
    levels.push_back(level);
  }
  while (levels.size() < 3) levels.insert(levels.begin(), Level{1, 0, 0, 0});
  const auto most =
      std::max_element(levels.begin(), levels.end(), [](const Level& x, const Level& y) { return x.count < y.count; });
  std::swap(*most, levels.back());
  return levels;
}

}  // namespace

std::size_t Cublas::workspace_bytes(int compute_capability) {
  return std::size_t{compute_capability >= 90 ? 32u : 4u} << 20;
}

Cublas::Cublas(DType dtype, void* stream, void* workspace, std::size_t bytes, Fp32Math math)
    : dtype_(dtype), stream_(stream) {
  STROBE_CUDA_CHECK(cudaGetDevice(&device_));
  cublasHandle_t handle = take(device_, stream);
  handle_ = handle;
  try {
    // The stream must be set before the workspace, because cublasSetStream resets the workspace to cuBLAS's own.
    check(cublas_library().set_stream(handle, static_cast<cudaStream_t>(stream)), "cublasSetStream", stream);
    check(cublas_library().set_workspace(handle, workspace, bytes), "cublasSetWorkspace", stream);
    const int mode = (math == Fp32Math::tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH) |
                     CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    check(cublas_library().set_math_mode(handle, static_cast<cublasMath_t>(mode)), "cublasSetMathMode", stream);
  } catch (...) {
    give_back(device_, handle);
    throw;
  }
}

Cublas::~Cublas() { give_back(device_, static_cast<cublasHandle_t>(handle_)); }

void Cublas::gemm(const Matmul& p) const {
  if (p.rows == 0 || p.cols == 0 || p.batch * p.heads * p.members == 0) return;
  const std::vector<Level> levels = levels_of(p);
  const auto element = static_cast<std::int64_t>(size_of(dtype_));
  const auto at = [&](const Matrices& m, std::int64_t offset) { return static_cast<char*>(m.data) + offset * element; };
  const auto order = [](Operand stored) { return stored == Operand::transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const float zero = 0;
  const cudaDataType type = type_of(dtype_);
  const auto [outer, middle, inner] = std::array{levels[0], levels[1], levels[2]};
  for (std::int64_t x = 0; x < outer.count; ++x) {
    for (std::int64_t y = 0; y < middle.count; ++y) {
      for (std::int64_t z = 0; z < inner.count; z += kMostPerCall) {
        const std::int64_t a = x * outer.a + y * middle.a + z * inner.a;
        const std::int64_t b = x * outer.b + y * middle.b + z * inner.b;
        const std::int64_t c = x * outer.c + y * middle.c + z * inner.c;
        const std::int64_t count = std::min(kMostPerCall, inner.count - z);
        // cuBLAS is column-major and thus reads every matrix as its transpose, so this computes c^T = b^T a^T.
        check(cublas_library().gemm_strided_batched(
                  static_cast<cublasHandle_t>(handle_), order(p.b_stored), order(p.a_stored), p.cols, p.rows, p.inner,
                  &p.factor, at(p.b, b), type, p.b.row, inner.b, at(p.a, a), type, p.a.row, inner.a, &zero, at(p.c, c),
                  type, p.c.row, inner.c, count, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
              "cublasGemmStridedBatchedEx", stream_);
      }
    }
  }
}

}  // namespace strobe::standard
