// Implements validate.h. The order of checks is: execution, sizes, options, lengths, memory.
#include "attention/validate.h"

#include <array>
#include <cmath>

#include "attention/checks.h"
#include "core/fail.h"
#include "device/gpu_facts.h"
#include "device/host/instruction_sets.h"
#include "device/host/thread_pool.h"

namespace strobe {

namespace {

constexpr auto kInvalid = ErrorCode::invalid_argument;
// Limits of softcap, within which tanh(s / softcap) * softcap stays in the range of floats.
constexpr float kLeastSoftcap = 1e-30f, kMostSoftcap = 1e30f;

void check_execution(const Execution& execution, Problem& problem) {
  if (execution.device != Device::cpu && execution.device != Device::cuda) {
    fail(kInvalid, "attention: unknown device {}; valid are 0 (cpu), 1 (cuda)", static_cast<int>(execution.device));
  }
  if (execution.device == Device::cuda) {
    const CurrentGpu gpu = current_gpu();
    if (!gpu.reason.empty()) {
      fail(ErrorCode::unsupported, "attention: device cuda cannot be used: {}", gpu.reason);
    }
    problem.gpu = gpu.facts;
    problem.stream = execution.stream;
  } else {
    problem.cpu_isa = forced_instruction_set();
  }
  if (execution.threads < 0 || execution.threads > kMaxThreads) {
    fail(kInvalid, "attention: threads is {}; valid are 0 (all cores of this process) to {}", execution.threads,
         kMaxThreads);
  }
  problem.device = execution.device;
  if (execution.threads != 0) {
    problem.threads = execution.threads;
  } else if (execution.device == Device::cpu) {  // calls on a GPU skip this system call
    problem.threads = std::min(available_cores(), kMaxThreads);
  }
  problem.deterministic = execution.deterministic;
  problem.tf32 = execution.tf32;
  problem.batch_invariant = execution.batch_invariant;
}

// Two tensors whose sizes must be equal in one dimension.
struct Same {
  const char* what;
  int dimension;
  const char* name;
  const ConstView& view;
  const char* other_name;
  const ConstView& other;
};

void check_same(const Same& same) {
  const auto i = static_cast<std::size_t>(same.dimension);
  if (same.view.shape[i] == same.other.shape[i]) return;
  fail(kInvalid, "attention: {} has {} {} but {} has {}", same.name, same.what, same.view.shape[i], same.other_name,
       same.other.shape[i]);
}

void check_dtype(const ConstView& view, const char* name, DType dtype) {
  if (view.dtype == dtype) return;
  fail(kInvalid, "attention: {} is {} but Q is {}; Q, K, V, O and their gradients share one dtype", name,
       name_of(view.dtype), name_of(dtype));
}

void check_head_dim(const char* name, std::int64_t size) {
  if (size >= 1 && size <= kMaxSize) return;
  fail(kInvalid, "attention: {} has head_dim {}; valid are 1 to {}", name, size, kMaxSize);
}

bool given(const ConstView& view) { return view.data || view.shape != std::array<std::int64_t, 4>{}; }

void check_given(const ConstView& view, const char* name) {
  if (!given(view)) fail(kInvalid, "attention: {} is missing: it has neither data nor a shape", name);
}

void check_shapes(const Attention& attention, Problem& problem) {
  const ConstView &q = attention.q, &k = attention.k, &v = attention.v;
  check_given(q, "Q");
  check_given(k, "K");
  check_given(v, "V");
  check_sizes(q, "Q");
  check_sizes(k, "K");
  check_sizes(v, "V");
  check_same({"head_dim", 3, "K", k, "Q", q});
  check_head_dim("Q", q.shape[3]);
  check_head_dim("V", v.shape[3]);
  check_dtype(k, "K", q.dtype);
  check_dtype(v, "V", q.dtype);
  check_same({"batch", 0, "K", k, "Q", q});
  check_same({"batch", 0, "V", v, "Q", q});
  check_same({"heads", 1, "V", v, "K", k});
  check_same({"sequence", 2, "V", v, "K", k});
  check_size("the batch of Q", q.shape[0]);
  check_size("the heads of Q", q.shape[1]);
  check_size("the heads of K", k.shape[1]);
  const std::int64_t heads_q = q.shape[1], heads_kv = k.shape[1];
  if (heads_kv == 0 ? heads_q != 0 : heads_q % heads_kv != 0) {
    fail(kInvalid, "attention: Q has {} heads, not a multiple of the {} heads of K and V", heads_q, heads_kv);
  }
  problem.dtype = q.dtype;
  if (problem.tf32 && (problem.device != Device::cuda || q.dtype != DType::fp32)) {
    fail(kInvalid, "attention: tf32 is for fp32 on cuda; this is {} on {}", name_of(q.dtype),
         problem.device == Device::cuda ? "cuda" : "cpu");
  }
  problem.batch = q.shape[0];
  problem.heads_q = heads_q;
  problem.heads_kv = heads_kv;
  problem.group = heads_q == 0 ? 1 : heads_q / heads_kv;
  problem.d = q.shape[3];
  problem.dv = v.shape[3];
  problem.total_q = q.shape[2];
}

void check_window_side(const char* side, std::int64_t value) {
  if (value >= -1) return;
  fail(kInvalid, "attention: window {} is {}; valid are -1 (open) and larger", side, value);
}

void check_options(const Attention& attention, Problem& problem) {
  problem.scale = attention.scale.value_or(1 / std::sqrt(static_cast<float>(problem.d)));
  if (!std::isfinite(problem.scale)) fail(kInvalid, "attention: scale is {}; it must be finite", problem.scale);
  if (attention.softcap != 0 && !(attention.softcap >= kLeastSoftcap && attention.softcap <= kMostSoftcap)) {
    fail(kInvalid, "attention: softcap is {}; valid: 0 for none, or {:g} to {:g}", attention.softcap, kLeastSoftcap,
         kMostSoftcap);
  }
  const float p = attention.dropout.p;
  if (!(p >= 0 && p < 1)) fail(kInvalid, "attention: dropout p is {}; valid are 0 <= p < 1", p);
  check_window_side("left", attention.window.left);
  check_window_side("right", attention.window.right);
  if (attention.alignment != Alignment::unset && attention.alignment != Alignment::top_left &&
      attention.alignment != Alignment::bottom_right) {
    fail(kInvalid, "attention: unknown alignment {}; valid are 0 (unset), 1 (top_left), 2 (bottom_right)",
         static_cast<int>(attention.alignment));
  }
  if (attention.dropout.seed_data && attention.dropout.seed != 0) {
    fail(kInvalid, "attention: dropout has seed {} and seed_data; with seed_data the seed must be 0",
         attention.dropout.seed);
  }
  check_array({"dropout seed_data", attention.dropout.seed_data, attention.dropout.seed_data ? 1 : 0, 8});
  check_array({"alibi_slopes", attention.alibi_slopes, attention.alibi_slopes ? problem.heads_q : 0, 4});
  check_array({"sinks", attention.sinks, attention.sinks ? problem.heads_q : 0, 4});
  problem.causal = attention.causal;
  problem.softcap = attention.softcap;
  problem.dropout = attention.dropout;
  problem.alibi_slopes = attention.alibi_slopes;
  problem.alibi_batch_stride = attention.alibi_batch_stride;
  problem.sinks = attention.sinks;
}

void check_alibi_stride(const Problem& problem) {
  const std::int64_t stride = problem.alibi_batch_stride;
  if (stride != 0 && !problem.alibi_slopes) {
    fail(kInvalid, "attention: alibi_batch_stride is {} but alibi_slopes is not given", stride);
  }
  if (stride < 0 || stride > kMaxElements / std::max<std::int64_t>(1, problem.batch)) {
    fail(kInvalid, "attention: alibi_batch_stride is {}; valid are 0 (one row of slopes for all sequences) to {}",
         stride, kMaxElements / std::max<std::int64_t>(1, problem.batch));
  }
}

// Causal masks, windows and ALiBi depend on a diagonal. If Sq != Sk there are two possible diagonals, so the caller
// must choose one.
void check_alignment(const Attention& attention, Problem& problem) {
  const bool causal = attention.causal;
  const bool window = attention.window.left >= 0 || attention.window.right >= 0;
  const std::string unequal = unequal_lengths(attention);
  if (attention.alignment == Alignment::unset && (causal || window || attention.alibi_slopes) && !unequal.empty()) {
    fail(kInvalid, "attention: {} with {} needs an alignment; set it to top_left or bottom_right",
         causal   ? "causal"
         : window ? "a window"
                  : "ALiBi",
         unequal);
  }
  problem.alignment = attention.alignment == Alignment::unset ? Alignment::top_left : attention.alignment;
  // A side of at least `far` keys hides no key, so it counts as open. This also prevents overflow of diagonal - left
  // and diagonal + right.
  const std::int64_t far = problem.max_seqlen_q + problem.max_seqlen_k;
  problem.window.left = attention.window.left >= far ? -1 : attention.window.left;
  problem.window.right = attention.window.right >= far ? -1 : attention.window.right;
}

// Returns the strides of a bias or its gradient, with 0 in broadcast dimensions.
std::array<std::int64_t, 4> broadcast(const ConstView& view, std::array<std::int64_t, 4> stride) {
  for (std::size_t i = 0; i < 3; ++i) {
    if (view.shape[i] == 1) stride[i] = 0;
  }
  return stride;
}

// CUDA does not read the offsets of a packed batch. The sizes that a bias or mask must have are then known only from
// max_seqlen_q and max_seqlen_k. An empty tensor, or a dimension of size 1, needs no bound.
void check_bounds(const Attention& attention, const Problem& problem, const char* name,
                  const std::array<std::int64_t, 4>& shape) {
  const bool unknown_q = attention.max_seqlen_q == 0 && attention.q.shape[2] != 0 && shape[2] != 1;
  const bool unknown_k = attention.max_seqlen_k == 0 && attention.k.shape[2] != 0 && shape[3] != 1;
  if (problem.device == Device::cuda && problem.packed && (unknown_q || unknown_k)) {
    fail(kInvalid,
         "attention: a {} over packed sequences on device cuda needs max_seqlen_q and max_seqlen_k, which determine "
         "its shape; they are {} and {}",
         name, attention.max_seqlen_q, attention.max_seqlen_k);
  }
}

void check_bias(const Attention& attention, Pointers pointers, Problem& problem) {
  const ConstView& bias = attention.bias;
  if (!given(bias)) return;
  check_sizes(bias, "bias");
  if (bias.dtype != DType::fp32 && bias.dtype != problem.dtype) {
    fail(kInvalid, "attention: bias is {}; valid are fp32 and the dtype of Q, {}", name_of(bias.dtype),
         name_of(problem.dtype));
  }
  check_bounds(attention, problem, "bias", bias.shape);
  const auto fits = [&](std::size_t i, std::int64_t size) { return bias.shape[i] == 1 || bias.shape[i] == size; };
  if (!fits(0, problem.batch) || !fits(1, problem.heads_q) || !fits(2, problem.max_seqlen_q) ||
      bias.shape[3] != problem.max_seqlen_k) {
    fail(kInvalid, "attention: bias has shape {}; valid is [{} or 1, {} or 1, {} or 1, {}]{}", text_of(bias.shape),
         problem.batch, problem.heads_q, problem.max_seqlen_q, problem.max_seqlen_k,
         problem.packed ? ": number of sequences, heads, longest q, longest k" : "");
  }
  problem.bias = bias;
  problem.bias.stride = broadcast(bias, check_memory(bias, {"bias", Use::input, pointers}));
  problem.has_bias = true;
}

void check_mask(const Attention& attention, Pointers pointers, Problem& problem) {
  const MaskView& mask = attention.mask;
  if (!mask.data && mask.shape == std::array<std::int64_t, 4>{}) return;
  check_shape(mask.shape, "mask");
  check_bounds(attention, problem, "mask", mask.shape);
  const std::array<std::int64_t, 4> full{problem.batch, problem.heads_q, problem.max_seqlen_q, problem.max_seqlen_k};
  for (std::size_t i = 0; i < 4; ++i) {
    if (mask.shape[i] == 1 || mask.shape[i] == full[i]) continue;
    fail(kInvalid, "attention: mask has shape {}; valid is [{} or 1, {} or 1, {} or 1, {} or 1]{}", text_of(mask.shape),
         full[0], full[1], full[2], full[3],
         problem.packed ? ": number of sequences, heads, longest q, longest k" : "");
  }
  problem.mask = mask;
  problem.mask.stride = check_mask_memory(mask, pointers);
  problem.has_mask = true;
}

// Reads a seed given by pointer, on the CPU. Workspace queries do not need it.
void read_seed(Problem& problem) {
  if (problem.device == Device::cpu && problem.dropout.seed_data) problem.dropout.seed = *problem.dropout.seed_data;
}

Problem validate_attention(const Attention& attention, Pass pass, const Execution& execution, Pointers pointers) {
  if (pass != Pass::forward && pass != Pass::backward) {
    fail(kInvalid, "attention: unknown pass {}; valid are 0 (forward), 1 (backward)", static_cast<int>(pass));
  }
  Problem problem;
  problem.pass = pass;
  check_execution(execution, problem);
  check_shapes(attention, problem);
  check_options(attention, problem);
  check_lengths(attention, problem);
  check_alibi_stride(problem);
  check_alignment(attention, problem);
  const auto input = [&](const ConstView& view, const char* name) {
    ConstView checked = view;
    checked.stride = check_memory(view, {name, Use::input, pointers});
    return checked;
  };
  problem.q = input(attention.q, "Q");
  problem.k = input(attention.k, "K");
  problem.v = input(attention.v, "V");
  check_bias(attention, pointers, problem);
  check_mask(attention, pointers, problem);
  if (pointers == Pointers::required) read_seed(problem);
  return problem;
}

// Checks a tensor that must have the given shape, and returns it with strides for kernels.
template <class Void>
BasicView<Void> checked(const BasicView<Void>& view, const ViewRule& rule, const std::array<std::int64_t, 4>& shape,
                        const Problem& problem) {
  check_sizes(view, rule.name);
  if (view.shape != shape) {
    fail(kInvalid, "attention: {} has shape {}; it must be {}", rule.name, text_of(view.shape), text_of(shape));
  }
  check_dtype(view, rule.name, problem.dtype);
  BasicView<Void> result = view;
  result.stride = check_memory(view, rule);
  return result;
}

std::array<std::int64_t, 4> shape_of_o(const Problem& problem) {
  const auto& q = problem.q.shape;
  return {q[0], q[1], q[2], problem.dv};
}

std::int64_t count_of_rows(const Problem& problem) {
  const auto& q = problem.q.shape;
  return q[0] * q[1] * q[2];
}

using LseStride = std::array<std::int64_t, 3>;

// Returns LSE or its gradient as a view [B, Hq, Sq, 1].
ConstView lse_view(const float* data, const LseStride& stride, const Problem& problem) {
  const auto& q = problem.q.shape;
  return {data, DType::fp32, {q[0], q[1], q[2], 1}, {stride[0], stride[1], stride[2], 1}};
}

LseStride contiguous_lse(const Problem& problem) { return {problem.heads_q * problem.total_q, problem.total_q, 1}; }

bool is_contiguous(const LseStride& stride, const Problem& problem) {
  const LseStride wanted = contiguous_lse(problem);
  const auto& q = problem.q.shape;
  if (count_of_rows(problem) == 0) return true;
  for (std::size_t i = 0; i < 3; ++i) {
    if (q[i] > 1 && stride[i] != wanted[i]) return false;
  }
  return true;
}

// Checks LSE or its gradient [B, Hq, Sq], and returns its strides for kernels. A contiguous array gets the same strides
// however those of dimensions of size 1 are set.
LseStride check_lse(const ViewRule& rule, const float* data, const LseStride& stride, const Problem& problem) {
  if (stride == LseStride{}) {
    check_array({rule.name, data, count_of_rows(problem), 4});
    return contiguous_lse(problem);
  }
  const auto used = check_memory(lse_view(data, stride, problem), rule);
  const LseStride result = {used[0], used[1], used[2]};
  return is_contiguous(result, problem) ? contiguous_lse(problem) : result;
}

void check_d_lse(const BackwardInputs& inputs, Problem& problem) {
  if (!inputs.d_lse) {
    if (inputs.d_lse_stride == LseStride{}) return;
    const LseStride& stride = inputs.d_lse_stride;
    fail(kInvalid, "attention: d_lse has strides [{}, {}, {}] but is null", stride[0], stride[1], stride[2]);
  }
  problem.d_lse = inputs.d_lse;
  problem.d_lse_stride = check_lse({"d_lse", Use::input}, inputs.d_lse, inputs.d_lse_stride, problem);
}

void check_dbias(const Attention& attention, const Gradients& gradients, Problem& problem) {
  const ConstView dbias = gradients.dbias;
  if (!given(dbias)) return;
  if (!problem.has_bias) fail(kInvalid, "attention: dbias of shape {} is given but bias is not", text_of(dbias.shape));
  check_sizes(dbias, "dbias");
  if (dbias.dtype != DType::fp32) fail(kInvalid, "attention: dbias is {}; it must be fp32", name_of(dbias.dtype));
  if (dbias.shape != attention.bias.shape) {
    fail(kInvalid, "attention: dbias has shape {} but bias has {}", text_of(dbias.shape),
         text_of(attention.bias.shape));
  }
  problem.dbias = gradients.dbias;
  problem.dbias.stride = broadcast(dbias, check_memory(dbias, {"dbias", Use::output}));
  problem.wants_dbias = true;
}

void check_dsinks(const Gradients& gradients, Problem& problem) {
  if (!gradients.dsinks) return;
  if (!problem.sinks) fail(kInvalid, "attention: dsinks is given but sinks is not");
  check_array({"dsinks", gradients.dsinks, problem.heads_q, 4});
  problem.dsinks = gradients.dsinks;
  problem.wants_dsinks = true;
}

View contiguous(const std::array<std::int64_t, 4>& shape, DType dtype) {
  return view_bhsd(static_cast<void*>(nullptr), dtype, shape);
}

ConstView slopes_of(const Problem& problem) {
  return {
      problem.alibi_slopes, DType::fp32, {problem.batch, 1, 1, problem.heads_q}, {problem.alibi_batch_stride, 0, 0, 1}};
}

// Returns the inputs of both passes. Inputs that the pass does not have are null and count as zero bytes.
std::array<Memory, 16> inputs_of(const Problem& problem) {
  return {{{"Q", problem.q},
           {"K", problem.k},
           {"V", problem.v},
           {"O", problem.o_in},
           {"LSE", lse_view(problem.lse_in, problem.lse_stride, problem)},
           {"d_lse", lse_view(problem.d_lse, problem.d_lse_stride, problem)},
           {"dO", problem.d_o},
           {"bias", problem.bias},
           {"mask", problem.mask},
           {"alibi_slopes", slopes_of(problem)},
           {"sinks", problem.sinks, problem.heads_q},
           {"first_keys", problem.first_keys},
           {"lengths_q", problem.lengths_q},
           {"lengths_k", problem.lengths_k},
           {"cu_seqlens_q", problem.cu_seqlens_q},
           {"cu_seqlens_k", problem.cu_seqlens_k}}};
}

std::array<Memory, 7> outputs_of(const Problem& problem) {
  return {{{"O", problem.o},
           {"LSE", lse_view(problem.lse, problem.lse_stride, problem)},
           {"dQ", problem.dq},
           {"dK", problem.dk},
           {"dV", problem.dv_out},
           {"dbias", problem.dbias},
           {"dsinks", problem.dsinks, problem.heads_q}}};
}

}  // namespace

void check_workspace_apart(const Problem& problem, const void* workspace, std::size_t bytes) {
  const Memory scratch[] = {{"workspace", workspace, bytes}};
  check_apart(scratch, outputs_of(problem));
  check_apart(scratch, inputs_of(problem));
}

Problem validate_forward(const Attention& attention, const ForwardOutputs& outputs, const Execution& execution) {
  Problem problem = validate_attention(attention, Pass::forward, execution, Pointers::required);
  problem.o = checked(outputs.o, {"O", Use::output}, shape_of_o(problem), problem);
  if (!outputs.lse && outputs.lse_stride != LseStride{}) {
    const LseStride& stride = outputs.lse_stride;
    fail(kInvalid, "attention: LSE has strides [{}, {}, {}] but is null", stride[0], stride[1], stride[2]);
  }
  if (outputs.lse) {
    problem.lse_stride = check_lse({"LSE", Use::output}, outputs.lse, outputs.lse_stride, problem);
    problem.lse_contiguous = is_contiguous(problem.lse_stride, problem);
  }
  problem.lse = outputs.lse;
  check_apart(outputs_of(problem), inputs_of(problem));
  return problem;
}

Problem validate_backward(const Attention& attention, const BackwardInputs& inputs, const Gradients& gradients,
                          const Execution& execution) {
  Problem problem = validate_attention(attention, Pass::backward, execution, Pointers::required);
  problem.o_in = checked(inputs.o, {"O", Use::input}, shape_of_o(problem), problem);
  problem.d_o = checked(inputs.d_o, {"dO", Use::expanded_input}, shape_of_o(problem), problem);
  problem.lse_stride = check_lse({"LSE", Use::input}, inputs.lse, inputs.lse_stride, problem);
  problem.lse_contiguous = is_contiguous(problem.lse_stride, problem);
  problem.lse_in = inputs.lse;
  check_d_lse(inputs, problem);
  problem.dq = checked(gradients.dq, {"dQ", Use::output}, problem.q.shape, problem);
  problem.dk = checked(gradients.dk, {"dK", Use::output}, problem.k.shape, problem);
  problem.dv_out = checked(gradients.dv, {"dV", Use::output}, problem.v.shape, problem);
  check_dbias(attention, gradients, problem);
  check_dsinks(gradients, problem);
  check_apart(outputs_of(problem), inputs_of(problem));
  return problem;
}

Problem validate_query(const Attention& attention, Pass pass, const Execution& execution) {
  Problem problem = validate_attention(attention, pass, execution, Pointers::ignored);
  const View o = contiguous(shape_of_o(problem), problem.dtype);
  check_sizes(o, "O");
  if (pass == Pass::forward) {
    problem.o = o;
    return problem;
  }
  problem.o_in = o;
  problem.d_o = o;
  problem.dq = contiguous(problem.q.shape, problem.dtype);
  problem.dk = contiguous(problem.k.shape, problem.dtype);
  problem.dv_out = contiguous(problem.v.shape, problem.dtype);
  if (problem.has_bias) {
    problem.dbias = contiguous(problem.bias.shape, DType::fp32);
    problem.dbias.stride = broadcast(problem.dbias, problem.dbias.stride);
    problem.wants_dbias = true;
  }
  problem.wants_dsinks = problem.sinks != nullptr;
  return problem;
}

}  // namespace strobe
