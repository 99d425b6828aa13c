// Stubs of cuda/ for builds without CUDA. Each function throws Error(unsupported) with the reason.
#include "core/fail.h"
#include "ops/cuda/launch.h"

namespace strobe::ops::cuda {

namespace {

[[noreturn]] void refuse() {
  fail(ErrorCode::unsupported,
       "cuda: this build has no CUDA (STROBE_CUDA=on ./strobe builds with CUDA if nvcc is installed)");
}

}  // namespace

void gemm(const ExecutionContext&, const Matmul&) { refuse(); }
void transpose(const ExecutionContext&, const float*, std::int64_t, std::int64_t, float*) { refuse(); }
void column_sums(const ExecutionContext&, const ColumnSums&, const void*, float*, Into) { refuse(); }
void layer_norm(const ExecutionContext&, const LayerNorm&, const LayerNormTensors&) { refuse(); }
void layer_norm_backward(const ExecutionContext&, const LayerNorm&, const LayerNormGradients&) { refuse(); }
void rms_norm(const ExecutionContext&, const RmsNorm&, const void*, const float*, void*, float*) { refuse(); }
void rms_norm_backward(const ExecutionContext&, const RmsNorm&, const RmsNormGradients&) { refuse(); }
void rope(const ExecutionContext&, const Rope&, const float*, void*, Rotation) { refuse(); }
void swiglu(const ExecutionContext&, const Swiglu&, const void*, void*) { refuse(); }
void swiglu_backward(const ExecutionContext&, const Swiglu&, const void*, const void*, void*) { refuse(); }
void gelu(const ExecutionContext&, const Gelu&, const void*, void*) { refuse(); }
void gelu_backward(const ExecutionContext&, const Gelu&, const void*, const void*, void*) { refuse(); }
void embedding(const ExecutionContext&, const Embedding&, const std::int32_t*, const float*, void*, const Positions&) {
  refuse();
}
void embedding_backward(const ExecutionContext&, const Embedding&, const std::int32_t*, const void*, float*, Into) {
  refuse();
}
void causal_softmax(const ExecutionContext&, const ScoreRows&, void*) { refuse(); }
void causal_softmax_backward(const ExecutionContext&, const ScoreRows&, const void*, void*) { refuse(); }
void cross_entropy(const ExecutionContext&, const CrossEntropy&, void*, const std::int32_t*, float*, LogitsBecome) {
  refuse();
}
void adamw(const ExecutionContext&, const Update*, std::span<const Trained>) { refuse(); }
void limit_gradients(const ExecutionContext&, std::span<const Trained>, Update*) { refuse(); }
void round_copies(const ExecutionContext&, std::span<const Trained>) { refuse(); }
void write(const ExecutionContext&, void*, const void*, std::size_t) { refuse(); }
void read(const ExecutionContext&, void*, const void*, std::size_t) { refuse(); }

}  // namespace strobe::ops::cuda
