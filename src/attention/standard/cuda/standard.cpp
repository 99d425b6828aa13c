// `standard` on CUDA: scores of all heads materialised at once in the problem's type, products through cuBLAS, softmax
// and its gradient in kernels of their own. Tensors that cuBLAS cannot take as they lie, and all that have lengths, go
// through contiguous rows padded with zeros.
#include <fmt/format.h>

#include <algorithm>

#include "attention/cuda/params.h"
#include "attention/standard/cuda/products.h"
#include "attention/standard/cuda/rows.h"
#include "attention/standard/standard.h"
#include "device/gpu_work.h"

namespace strobe {
namespace {

using namespace standard;

std::int64_t padded(std::int64_t columns) { return (columns + 7) / 8 * 8; }  // rows of 16-bit elements stay aligned

bool has_lengths(const Problem& problem) { return problem.packed || problem.lengths_q || problem.lengths_k; }

// Whether cuBLAS can read or write the tensor in place.
template <class Void>
bool lies_well(const Problem& problem, const BasicView<Void>& view) {
  const auto& stride = view.stride;
  return !problem.packed && stride[0] >= 0 && stride[1] >= 0 && stride[2] >= view.shape[3] && stride[3] == 1;
}

// Whether the rows of all query heads that share a KV head lie at one stride: products over them are one sum then.
bool group_is_stacked(const Problem& problem, const ConstView& view) {
  return problem.group == 1 || view.stride[1] == problem.max_q * view.stride[2];
}

bool needs_copy(const Problem& problem, const ConstView& view, Side side) {
  if (has_lengths(problem) || !lies_well(problem, view)) return true;
  return side == Side::queries && problem.pass == Pass::backward && !group_is_stacked(problem, view);
}

// Offsets into the workspace in bytes, each a multiple of 256.
struct Layout {
  std::size_t cublas, weights, gradients, tanh, sinks;  // scores: [B, Hq, max_q, padded max_k]
  std::size_t q, k, v, d_o, out;                        // contiguous rows of tensors
  std::size_t total;
};

// What a query for bytes does not know, where an output or dO lies, changes nothing here: their rows have room always.
Layout layout_of(const Problem& problem) {
  const bool backward = problem.pass == Pass::backward;
  const std::size_t element = size_of(problem.dtype);
  const auto rows_q = static_cast<std::size_t>(problem.batch * problem.heads_q * problem.max_q);
  const auto rows_k = static_cast<std::size_t>(problem.batch * problem.heads_kv * problem.max_k);
  const auto d = static_cast<std::size_t>(padded(problem.d));
  const auto dv = static_cast<std::size_t>(padded(problem.dv));
  const std::size_t scores = rows_q * static_cast<std::size_t>(padded(problem.max_k)) * element;
  std::size_t end = 0;
  const auto take = [&end](bool wanted, std::size_t bytes) {
    const std::size_t begin = end;
    if (wanted) end += (bytes + 255) / 256 * 256;
    return begin;
  };
  Layout layout{};
  layout.cublas = take(true, Cublas::workspace_bytes(problem.gpu.compute_capability));
  layout.weights = take(true, scores);
  layout.gradients = take(backward, scores);
  layout.tanh = take(backward && problem.softcap != 0, scores);
  layout.sinks = take(backward && problem.sinks, rows_q * sizeof(float));
  layout.q = take(needs_copy(problem, problem.q, Side::queries), rows_q * d * element);
  layout.k = take(needs_copy(problem, problem.k, Side::keys), rows_k * d * element);
  layout.v = take(needs_copy(problem, problem.v, Side::keys), rows_k * dv * element);
  layout.d_o = take(backward, rows_q * dv * element);
  const std::size_t out = backward ? std::max({rows_q * d, rows_k * d, rows_k * dv}) : rows_q * dv;
  layout.out = take(true, out * element);
  layout.total = end;
  return layout;
}

// One call: the tensors as cuBLAS reads them.
class Call {
 public:
  Call(const Problem& problem, void* workspace)
      : problem_(problem),
        params_(cuda::params_of(problem)),
        layout_(layout_of(problem)),
        workspace_(static_cast<char*>(workspace)),
        cublas_(problem.dtype, problem.stream, workspace_ + layout_.cublas,
                Cublas::workspace_bytes(problem.gpu.compute_capability),
                problem.tf32 ? Fp32Math::tf32 : Fp32Math::exact) {}

  void forward();
  void backward();

 private:
  void to_scores(const ScoreGradients& rows);

  // An input in place, or its copy.
  Matrices input(const ConstView& view, const cuda::Tensor& tensor, Side side, std::size_t copy);
  // c = a b, where c is an output of the caller's.
  void multiply_out(Product product, const View& view, const cuda::Tensor& tensor, Side side);

  Matrices scores(std::size_t offset) const;
  Matrices contiguous(void* data, Side side, std::int64_t columns) const;
  Product product_of(std::int64_t rows, std::int64_t cols, std::int64_t inner) const;
  Matrices stacked(Matrices matrices) const {  // the rows of a group as those of one matrix
    matrices.member = 0;
    return matrices;
  }

  const Problem& problem_;
  const cuda::Params params_;
  const Layout layout_;
  char* const workspace_;
  const Cublas cublas_;
};

Matrices Call::contiguous(void* data, Side side, std::int64_t columns) const {
  const std::int64_t row = padded(columns);
  const std::int64_t rows = side == Side::queries ? problem_.max_q : problem_.max_k;
  if (side == Side::keys) return {data, problem_.heads_kv * rows * row, rows * row, 0, row};
  return {data, problem_.heads_q * rows * row, problem_.group * rows * row, rows * row, row};
}

Matrices Call::scores(std::size_t offset) const {
  return contiguous(workspace_ + offset, Side::queries, problem_.max_k);
}

template <class Void>
Matrices in_place(const Problem& problem, const BasicView<Void>& view, Side side) {
  const auto& stride = view.stride;
  void* data = const_cast<void*>(static_cast<const void*>(view.data));
  if (side == Side::keys) return {data, stride[0], stride[1], 0, stride[2]};
  return {data, stride[0], problem.group * stride[1], stride[1], stride[2]};
}

Matrices Call::input(const ConstView& view, const cuda::Tensor& tensor, Side side, std::size_t copy) {
  if (!needs_copy(problem_, view, side)) return in_place(problem_, view, side);
  const Matrices rows = contiguous(workspace_ + copy, side, view.shape[3]);
  const std::int64_t heads = side == Side::queries ? problem_.heads_q : problem_.heads_kv;
  gather(
      problem_.dtype, params_,
      {tensor, rows.data, static_cast<std::int32_t>(heads), static_cast<std::int32_t>(view.shape[3]), rows.row, side},
      problem_.stream);
  return rows;
}

void Call::multiply_out(Product product, const View& view, const cuda::Tensor& tensor, Side side) {
  if (product.inner == 0) {  // a sum over nothing
    GpuElements elements{.data = view.data, .bytes = size_of(view.dtype)};
    std::copy(view.shape.begin(), view.shape.end(), elements.shape);
    std::copy(view.stride.begin(), view.stride.end(), elements.stride);
    return clear_on_gpu(elements, problem_.stream);
  }
  if (lies_well(problem_, view)) {
    product.c = in_place(problem_, view, side);
    return cublas_.multiply(product);
  }
  product.c = contiguous(workspace_ + layout_.out, side, view.shape[3]);
  cublas_.multiply(product);
  const std::int64_t heads = side == Side::queries ? problem_.heads_q : problem_.heads_kv;
  scatter(problem_.dtype, params_,
          {tensor, product.c.data, static_cast<std::int32_t>(heads), static_cast<std::int32_t>(view.shape[3]),
           product.c.row, side},
          problem_.stream);
}

Product Call::product_of(std::int64_t rows, std::int64_t cols, std::int64_t inner) const {
  Product product{};
  product.rows = rows;
  product.cols = cols;
  product.inner = inner;
  product.batch = problem_.batch;
  product.heads = problem_.heads_kv;
  product.members = problem_.group;
  return product;
}

void Call::forward() {
  const std::int64_t sq = problem_.max_q, sk = problem_.max_k;
  const Matrices q = input(problem_.q, params_.q, Side::queries, layout_.q);
  const Matrices k = input(problem_.k, params_.k, Side::keys, layout_.k);
  const Matrices v = input(problem_.v, params_.v, Side::keys, layout_.v);
  const Matrices weights = scores(layout_.weights);

  Product scaled = product_of(sq, sk, problem_.d);  // scale * Q K^T
  scaled.a = q, scaled.b = k, scaled.b_stored = Operand::transposed, scaled.c = weights, scaled.factor = problem_.scale;
  cublas_.multiply(scaled);

  softmax(problem_.dtype, params_, {.weights = weights.data, .row = weights.row}, true, problem_.stream);

  Product o = product_of(sq, problem_.dv, sk);  // P V
  o.a = weights, o.b = v;
  multiply_out(o, problem_.o, params_.o, Side::queries);
}

void Call::backward() {
  const std::int64_t sq = problem_.max_q, sk = problem_.max_k, d = problem_.d, dv = problem_.dv;
  const Matrices q = input(problem_.q, params_.q, Side::queries, layout_.q);
  const Matrices k = input(problem_.k, params_.k, Side::keys, layout_.k);
  const Matrices v = input(problem_.v, params_.v, Side::keys, layout_.v);
  const Matrices d_o = input(problem_.d_o, params_.d_o, Side::queries, layout_.d_o);
  const Matrices weights = scores(layout_.weights);
  const Matrices gradients = scores(layout_.gradients);
  const bool has_dropout = problem_.dropout.p != 0;
  void* const tanh = problem_.softcap != 0 ? workspace_ + layout_.tanh : nullptr;
  auto* const sinks = problem_.sinks ? reinterpret_cast<float*>(workspace_ + layout_.sinks) : nullptr;

  Product scaled = product_of(sq, sk, d);  // scale * Q K^T, then P again
  scaled.a = q, scaled.b = k, scaled.b_stored = Operand::transposed, scaled.c = weights, scaled.factor = problem_.scale;
  cublas_.multiply(scaled);
  softmax(problem_.dtype, params_,
          {.weights = weights.data,
           .dropped = has_dropout ? gradients.data : nullptr,
           .tanh = tanh,
           .sink_weight = sinks,
           .row = weights.row},
          false, problem_.stream);

  Product to_v = product_of(sk, dv, problem_.group * sq);  // dV = P^T dO over the group
  to_v.members = 1;
  to_v.a = stacked(has_dropout ? gradients : weights), to_v.a_stored = Operand::transposed, to_v.b = stacked(d_o);
  multiply_out(to_v, problem_.dv_out, params_.dv, Side::keys);

  Product to_weights = product_of(sq, sk, dv);  // dP = dO V^T
  to_weights.a = d_o, to_weights.b = v, to_weights.b_stored = Operand::transposed, to_weights.c = gradients;
  cublas_.multiply(to_weights);

  to_scores({weights.data, gradients.data, tanh, sinks, weights.row});

  Product to_k = product_of(sk, d, problem_.group * sq);  // dK = dS^T Q over the group
  to_k.members = 1;
  to_k.a = stacked(gradients), to_k.a_stored = Operand::transposed, to_k.b = stacked(q);
  multiply_out(to_k, problem_.dk, params_.dk, Side::keys);

  Product to_q = product_of(sq, d, sk);  // dQ = dS K
  to_q.a = gradients, to_q.b = k;
  multiply_out(to_q, problem_.dq, params_.dq, Side::queries);
}

// From gradients of weights to those of q.k, and those of bias and sinks on the way.
void Call::to_scores(const ScoreGradients& rows) {
  if (plain_softmax_backward(problem_.dtype, params_, rows, problem_.stream)) return;
  softmax_backward(problem_.dtype, params_, rows, problem_.stream);
  if (problem_.wants_dbias) {
    const auto& shape = problem_.dbias.shape;
    sum_dbias(
        problem_.dtype, params_, rows,
        {static_cast<std::int32_t>(shape[0]), static_cast<std::int32_t>(shape[1]), static_cast<std::int32_t>(shape[2])},
        problem_.stream);
  }
  if (problem_.wants_dsinks) sum_dsinks(params_, rows.sink_weight, problem_.stream);
  options_backward(problem_.dtype, params_, rows, problem_.stream);
}

std::string refusal(const Problem& problem) {
  if (std::string reason = cuda::common_refusal(problem); !reason.empty()) return reason;
  // Bytes of the scores, with room for all else in 63 bits.
  const double bytes = 4.0 * static_cast<double>(problem.batch * problem.heads_q) * static_cast<double>(problem.max_q) *
                       static_cast<double>(padded(problem.max_k));
  if (bytes > 0x1p58) {
    return fmt::format("scores of {} x {} heads, {} rows x {} keys do not fit any memory", problem.batch,
                       problem.heads_q, problem.max_q, problem.max_k);
  }
  return {};
}

std::string configuration(const Problem& problem) {
  const double bytes = static_cast<double>(size_of(problem.dtype)) *
                       static_cast<double>(problem.batch * problem.heads_q) * static_cast<double>(problem.max_q) *
                       static_cast<double>(padded(problem.max_k));
  return fmt::format("cuBLAS{}, scores of all heads materialised: {:.1f} MiB", problem.tf32 ? " in tf32" : "",
                     bytes / (1 << 20));
}

}  // namespace

const Kernel kStandardCuda = {
    .name = "standard",
    .device = Device::cuda,
    .refusal = refusal,
    .configuration = configuration,
    .workspace_bytes = [](const Problem& problem) { return layout_of(problem).total; },
    .run =
        [](const Problem& problem, void* workspace) {
          Call call(problem, workspace);
          problem.pass == Pass::forward ? call.forward() : call.backward();
        },
};

}  // namespace strobe
