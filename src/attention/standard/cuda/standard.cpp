// The kernels `standard` and `frugal` on CUDA. Scores are materialised in the problem's type, cuBLAS computes the
// GEMMs, and the kernels of rows.h compute softmax and its gradient. Tensors that cuBLAS cannot read in place, and all
// inputs of batches with lengths, are copied to contiguous rows padded with zeros.
#include <fmt/format.h>

#include <algorithm>

#include "attention/cuda/params.h"
#include "attention/cuda/problem.h"
#include "attention/kernel_list.h"
#include "attention/standard/cuda/layout.h"
#include "attention/standard/cuda/matmul.h"
#include "device/gpu_work.h"

namespace strobe {
namespace {

using namespace standard;

// One pass over a range of heads.
class HeadPass {
 public:
  HeadPass(const Problem& problem, const cuda::BackwardParams& params, const WorkspaceLayout& layout,
           const Cublas& cublas, char* workspace, const HeadRange& range)
      : problem_(problem), params_(params), layout_(layout), cublas_(cublas), workspace_(workspace), range_(range) {}

  void forward();
  void backward();

 private:
  Matrices probabilities(const Matrices& q, const Matrices& k);
  void to_scores(const ScoreGradients& gradients);

  // Returns an input in place or, if it needs_copy(), copies it to offset `copy` of the workspace.
  Matrices input(const ConstView& view, const cuda::Tensor& tensor, Side side, std::size_t copy);
  // Computes c = a b and writes it to an output of the caller.
  void gemm_out(Matmul matmul, const View& view, const cuda::Tensor& tensor, Side side);

  std::int64_t heads_on(Side side) const { return range_.heads * (side == Side::queries ? problem_.group : 1); }
  Copy copy_of(const cuda::Tensor& tensor, const Matrices& rows, Side side, std::int64_t columns) const;
  template <class Void>
  Matrices in_place(const BasicView<Void>& view, Side side) const;
  Matrices contiguous(std::size_t offset, Side side, std::int64_t columns) const;
  Matrices scores(std::size_t offset) const { return contiguous(offset, Side::queries, problem_.max_seqlen_k); }
  RowRange rows() const;
  void* tanh() const { return problem_.softcap != 0 ? workspace_ + layout_.tanh : nullptr; }
  float* sinks() const { return problem_.sinks ? reinterpret_cast<float*>(workspace_ + layout_.sinks) : nullptr; }
  Matmul product_of(std::int64_t rows, std::int64_t cols, std::int64_t inner) const;
  Matrices stacked(Matrices matrices) const {  // merges the rows of a group into one matrix
    matrices.member = 0;
    return matrices;
  }

  const Problem& problem_;
  const cuda::BackwardParams& params_;
  const WorkspaceLayout& layout_;
  const Cublas& cublas_;
  char* const workspace_;
  const HeadRange range_;
};

Matrices HeadPass::contiguous(std::size_t offset, Side side, std::int64_t columns) const {
  void* const data = workspace_ + offset;
  const std::int64_t row = padded(columns);
  const std::int64_t rows = side == Side::queries ? problem_.max_seqlen_q : problem_.max_seqlen_k;
  if (side == Side::keys) return {data, range_.heads * rows * row, rows * row, 0, row};
  return {data, heads_on(side) * rows * row, problem_.group * rows * row, rows * row, row};
}

template <class Void>
Matrices HeadPass::in_place(const BasicView<Void>& view, Side side) const {
  const auto& stride = view.stride;
  const std::int64_t head = side == Side::keys ? stride[1] : problem_.group * stride[1];
  const std::int64_t first = range_.first_batch * stride[0] + range_.first_head * head;
  char* const data = const_cast<char*>(static_cast<const char*>(view.data));
  return {data + first * static_cast<std::int64_t>(size_of(view.dtype)), stride[0], head,
          side == Side::keys ? 0 : stride[1], stride[2]};
}

Copy HeadPass::copy_of(const cuda::Tensor& tensor, const Matrices& rows, Side side, std::int64_t columns) const {
  return {.tensor = tensor,
          .rows = rows.data,
          .first_batch = range_.first_batch,
          .batches = range_.batches,
          .first_head = range_.first_head * (side == Side::queries ? problem_.group : 1),
          .heads = heads_on(side),
          .cols = static_cast<std::int32_t>(columns),
          .row = rows.row,
          .side = side,
          .first_keys = params_.first_keys};
}

RowRange HeadPass::rows() const {
  const std::int64_t first_head = range_.first_batch * problem_.heads_q + range_.first_head * problem_.group;
  return {.first = first_head * problem_.max_seqlen_q,
          .count = range_.batches * heads_on(Side::queries) * problem_.max_seqlen_q,
          .stride = padded(problem_.max_seqlen_k)};
}

Matrices HeadPass::input(const ConstView& view, const cuda::Tensor& tensor, Side side, std::size_t copy) {
  if (!needs_copy(problem_, view, side)) return in_place(view, side);
  const Matrices rows = contiguous(copy, side, view.shape[3]);
  gather(problem_.dtype, params_, copy_of(tensor, rows, side, view.shape[3]), problem_.stream);
  return rows;
}

void HeadPass::gemm_out(Matmul matmul, const View& view, const cuda::Tensor& tensor, Side side) {
  if (matmul.inner == 0) {  // the matmul has no terms, so its result is 0
    GpuElements elements{.data = view.data, .bytes = size_of(view.dtype)};
    std::copy(view.shape.begin(), view.shape.end(), elements.shape);
    std::copy(view.stride.begin(), view.stride.end(), elements.stride);
    return clear_on_gpu(elements, problem_.stream);
  }
  if (is_gemm_operand(problem_, view)) {
    matmul.c = in_place(view, side);
    return cublas_.gemm(matmul);
  }
  matmul.c = contiguous(layout_.out, side, view.shape[3]);
  cublas_.gemm(matmul);
  scatter(problem_.dtype, params_, copy_of(tensor, matmul.c, side, view.shape[3]), problem_.stream);
}

Matmul HeadPass::product_of(std::int64_t rows, std::int64_t cols, std::int64_t inner) const {
  Matmul matmul{};
  matmul.rows = rows;
  matmul.cols = cols;
  matmul.inner = inner;
  matmul.batch = range_.batches;
  matmul.heads = range_.heads;
  matmul.members = problem_.group;
  return matmul;
}

// Computes softmax(scale * Q K^T). Backward also stores the probabilities after dropout, in the memory of d_scores.
Matrices HeadPass::probabilities(const Matrices& q, const Matrices& k) {
  const Matrices result = scores(layout_.probabilities);
  const bool backward = problem_.pass == Pass::backward;
  Matmul scaled = product_of(problem_.max_seqlen_q, problem_.max_seqlen_k, problem_.d);
  scaled.a = q, scaled.b = k, scaled.b_stored = Operand::transposed;
  scaled.c = scores(layout_.scores), scaled.factor = problem_.scale;
  cublas_.gemm(scaled);
  softmax(problem_.dtype, params_,
          {.rows = rows(),
           .scores = scaled.c.data,
           .probabilities = result.data,
           .dropped = backward && problem_.dropout.p != 0 ? workspace_ + layout_.d_scores : nullptr,
           .tanh = backward ? tanh() : nullptr,
           .sink_weight = backward ? sinks() : nullptr},
          !backward, problem_.stream);
  return result;
}

void HeadPass::forward() {
  const Matrices q = input(problem_.q, params_.q, Side::queries, layout_.q);
  const Matrices k = input(problem_.k, params_.k, Side::keys, layout_.k);
  const Matrices v = input(problem_.v, params_.v, Side::keys, layout_.v);
  Matmul o = product_of(problem_.max_seqlen_q, problem_.dv, problem_.max_seqlen_k);  // P V
  o.a = probabilities(q, k), o.b = v;
  gemm_out(o, problem_.o, params_.o, Side::queries);
}

void HeadPass::backward() {
  const std::int64_t sq = problem_.max_seqlen_q, sk = problem_.max_seqlen_k, d = problem_.d, dv = problem_.dv;
  const Matrices q = input(problem_.q, params_.q, Side::queries, layout_.q);
  const Matrices k = input(problem_.k, params_.k, Side::keys, layout_.k);
  const Matrices v = input(problem_.v, params_.v, Side::keys, layout_.v);
  const Matrices d_o = input(problem_.d_o, params_.d_o, Side::queries, layout_.d_o);
  const Matrices d_probabilities = scores(layout_.d_probabilities);
  const Matrices d_scores = scores(layout_.d_scores);
  const Matrices p = probabilities(q, k);

  Matmul to_v = product_of(sk, dv, problem_.group * sq);  // dV = P^T dO over the group
  to_v.members = 1;
  to_v.a = stacked(problem_.dropout.p != 0 ? d_scores : p), to_v.a_stored = Operand::transposed, to_v.b = stacked(d_o);
  gemm_out(to_v, problem_.dv_out, params_.dv, Side::keys);

  Matmul to_probabilities = product_of(sq, sk, dv);  // dP = dO V^T
  to_probabilities.a = d_o, to_probabilities.b = v, to_probabilities.b_stored = Operand::transposed;
  to_probabilities.c = d_probabilities;
  cublas_.gemm(to_probabilities);

  to_scores({.rows = rows(),
             .probabilities = p.data,
             .d_probabilities = d_probabilities.data,
             .d_scores = d_scores.data,
             .tanh = tanh(),
             .d_lse = params_.d_lse,
             .sink_weight = sinks()});

  Matmul to_k = product_of(sk, d, problem_.group * sq);  // dK = dS^T Q over the group
  to_k.members = 1;
  to_k.a = stacked(d_scores), to_k.a_stored = Operand::transposed, to_k.b = stacked(q);
  gemm_out(to_k, problem_.dk, params_.dk, Side::keys);

  Matmul to_q = product_of(sq, d, sk);  // dQ = dS K
  to_q.a = d_scores, to_q.b = k;
  gemm_out(to_q, problem_.dq, params_.dq, Side::queries);
}

// Converts gradients of probabilities to those of q.k, and sums dbias if it is wanted.
void HeadPass::to_scores(const ScoreGradients& gradients) {
  if (plain_softmax_backward(problem_.dtype, params_, gradients, problem_.stream)) return;
  softmax_backward(problem_.dtype, params_, gradients, problem_.stream);
  if (problem_.wants_dbias) {
    const auto& shape = problem_.dbias.shape;
    sum_dbias(
        problem_.dtype, params_, gradients,
        {static_cast<std::int32_t>(shape[0]), static_cast<std::int32_t>(shape[1]), static_cast<std::int32_t>(shape[2])},
        problem_.stream);
  }
  options_backward(problem_.dtype, params_, gradients, problem_.stream);
}

double score_bytes(const Problem& problem, const HeadRange& range) {
  return static_cast<double>(size_of(problem.dtype)) *
         static_cast<double>(range.batches * range.heads * problem.group) * static_cast<double>(problem.max_seqlen_q) *
         static_cast<double>(padded(problem.max_seqlen_k));
}

std::string refusal(const Problem& problem, Variant variant) {
  if (std::string reason = cuda::common_refusal(problem); !reason.empty()) return reason;
  const bool all = variant == Variant::standard || problem.wants_dbias;
  const HeadRange range{0, all ? problem.batch : 1, 0, all ? problem.heads_kv : 1};
  if (score_bytes(problem, range) <= 0x1p57) return {};  // other buffers then fit in 63 bits too
  return fmt::format("scores of {} heads, {} rows x {} keys do not fit in any memory",
                     range.batches * range.heads * problem.group, problem.max_seqlen_q, problem.max_seqlen_k);
}

struct StandardLaunch {
  Variant variant;
  HeadRange most;  // range of the largest pass
  WorkspaceLayout layout;

  std::string text(const Problem& problem) const;
  void run(const Problem& problem, void* memory) const;
};

std::string StandardLaunch::text(const Problem& problem) const {
  const bool forward = problem.pass == Pass::forward;
  const bool in_place = variant == Variant::frugal;
  const std::int64_t all = problem.batch * problem.heads_q;
  const std::int64_t heads = most.batches * most.heads * problem.group;
  const int matrices = (forward ? 2 : 4) / (in_place ? 2 : 1);
  return fmt::format("cuBLAS{}, {}{} of {} heads materialised: {}{:.1f} MiB", problem.tf32 ? " in tf32" : "",
                     in_place ? "scores" : "scores, probabilities", forward ? "" : " and gradients",
                     heads == all ? "all" : fmt::format("{} of {}", heads, all),
                     matrices == 1 ? "" : fmt::format("{} x ", matrices), score_bytes(problem, most) / (1 << 20));
}

void StandardLaunch::run(const Problem& problem, void* memory) const {
  auto* const workspace = static_cast<char*>(memory);
  const cuda::BackwardParams params = cuda::backward_params_of(problem);
  const Cublas cublas(problem.dtype, problem.stream, workspace + layout.cublas,
                      Cublas::workspace_bytes(problem.gpu.compute_capability),
                      problem.tf32 ? Fp32Math::tf32 : Fp32Math::exact);
  for (std::int64_t b = 0; b < problem.batch; b += most.batches) {
    for (std::int64_t h = 0; h < problem.heads_kv; h += most.heads) {
      const HeadRange range{b, std::min(most.batches, problem.batch - b), h,
                            std::min(most.heads, problem.heads_kv - h)};
      HeadPass pass(problem, params, layout, cublas, workspace, range);
      problem.pass == Pass::forward ? pass.forward() : pass.backward();
    }
  }
  if (problem.pass == Pass::backward && problem.wants_dsinks) {
    sum_dsinks(params, reinterpret_cast<const float*>(workspace + layout.sinks), problem.stream);
  }
}

Plan plan_variant(const Problem& problem, Variant variant) {
  if (std::string reason = refusal(problem, variant); !reason.empty()) return Plan(std::move(reason));
  const StandardLaunch launch{variant, heads_of_pass(problem, variant), layout_of(problem, variant)};
  return Plan(launch, launch.layout.total);
}

}  // namespace

Plan cuda::plan_standard(const Problem& problem) { return plan_variant(problem, Variant::standard); }
Plan cuda::plan_frugal(const Problem& problem) { return plan_variant(problem, Variant::frugal); }

}  // namespace strobe
