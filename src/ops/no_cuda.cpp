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

void multiply(const Place&, const Product&) { refuse(); }
void transpose(const Place&, const float*, std::int64_t, std::int64_t, float*) { refuse(); }
void column_sums(const Place&, const ColumnSums&, const void*, float*, Into) { refuse(); }
void layer_norm(const Place&, const LayerNorm&, const LayerNormTensors&) { refuse(); }
void layer_norm_backward(const Place&, const LayerNorm&, const LayerNormGradients&) { refuse(); }
void rms_norm(const Place&, const RmsNorm&, const void*, const float*, void*, float*) { refuse(); }
void rms_norm_backward(const Place&, const RmsNorm&, const RmsNormGradients&) { refuse(); }
void rope(const Place&, const Rope&, const float*, void*, Turn) { refuse(); }
void swiglu(const Place&, const Swiglu&, const void*, void*) { refuse(); }
void swiglu_backward(const Place&, const Swiglu&, const void*, const void*, void*) { refuse(); }
void gelu(const Place&, const Gelu&, const void*, void*) { refuse(); }
void gelu_backward(const Place&, const Gelu&, const void*, const void*, void*) { refuse(); }
void embedding(const Place&, const Embedding&, const std::int32_t*, const float*, void*, const Positions&) { refuse(); }
void embedding_backward(const Place&, const Embedding&, const std::int32_t*, const void*, float*, Into) { refuse(); }
void causal_softmax(const Place&, const ScoreRows&, void*) { refuse(); }
void causal_softmax_backward(const Place&, const ScoreRows&, const void*, void*) { refuse(); }
void cross_entropy(const Place&, const CrossEntropy&, void*, const std::int32_t*, float*, LogitsBecome) { refuse(); }
void adamw(const Place&, const Update*, std::span<const Trained>) { refuse(); }
void limit_gradients(const Place&, std::span<const Trained>, Update*) { refuse(); }
void round_copies(const Place&, std::span<const Trained>) { refuse(); }
void write(const Place&, void*, const void*, std::size_t) { refuse(); }
void read(const Place&, void*, const void*, std::size_t) { refuse(); }

}  // namespace strobe::ops::cuda
