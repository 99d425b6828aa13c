// Runs test cases through the public API and through the oracle.
#include "support/run.h"

#include <fmt/format.h>

#include "attention/reference/reference.h"
#include "attention/validate.h"

namespace strobe::test {
namespace {

// A workspace of exactly the required bytes, filled with NaN, between guards.
struct Workspace {
  Workspace(const Attention& attention, Pass pass, Execution& execution) {
    bytes = workspace_bytes(attention, pass, execution);
    const auto floats = static_cast<std::int64_t>((bytes + 3) / 4);
    tensor = make_tensor({DType::fp32, {1, 1, 1, floats}, Layout::bhsd, 0});
    execution.workspace = tensor.view.data;
    execution.workspace_bytes = bytes;
  }
  std::size_t bytes = 0;
  Tensor tensor;
};

}  // namespace

void Outcome::complain(std::string_view where, const std::string& what) {
  if (!what.empty()) complaint += fmt::format("  {}: {}\n", where, what);
}

Outcome run(const Data& data, const RunOptions& options) {
  const Case& c = data.c;
  Outcome out;
  const auto tensor = [&](const Shape& shape, Layout layout, DType dtype) {
    return make_tensor({dtype, shape, layout, c.misalign});
  };
  const Attention attention = data.attention();
  const Shape shape_o = data.shape_o();
  const bool invariant = c.batch_invariant && options.kernel == "flash2";
  Execution execution{.kernel = options.kernel, .threads = options.threads, .batch_invariant = invariant};

  Tensor o = tensor(shape_o, c.layout_out, c.dtype);
  Tensor lse = tensor(data.shape_lse(), c.layout_lse, DType::fp32);
  std::array<std::int64_t, 3> lse_stride{};
  if (c.layout_lse != Layout::bhsd) std::copy_n(lse.view.stride.begin(), 3, lse_stride.begin());
  auto* lse_data = static_cast<float*>(lse.view.data);
  {
    Execution pass = execution;
    std::optional<Workspace> workspace;
    if (options.own_workspace) workspace.emplace(attention, Pass::forward, pass);
    forward(attention, {.o = o.view, .lse = lse_data, .lse_stride = lse_stride}, pass);
    if (workspace) out.complain("forward workspace", workspace->tensor.buffer->stray_write());
  }
  out.complain("O", o.buffer->stray_write());
  out.complain("LSE", lse.buffer->stray_write());
  out.complain("forward", data.changed());
  out.results.o = o.gather();
  out.results.lse = lse.gather();

  Tensor dq, dk, dv, dbias, dsinks;
  if (c.fused) {
    auto parts = make_fused(c.dtype, {shape_o[0], 0, shape_o[2], c.d}, {c.heads_q, c.heads_kv, c.heads_kv});
    dq = parts[0], dk = parts[1], dv = parts[2];
  } else {
    dq = tensor(data.shape_q(), c.layout_out, c.dtype);
    dk = tensor(data.shape_k(), c.layout_out, c.dtype);
    dv = tensor(data.shape_v(), c.layout_out, c.dtype);
  }
  Gradients gradients{.dq = dq.view, .dk = dk.view, .dv = dv.view};
  if (c.bias && c.dbias) {
    dbias = tensor(c.bias_dims(), c.layout_out, DType::fp32);
    gradients.dbias = dbias.view;
  }
  if (c.sinks) {
    dsinks = tensor({1, 1, 1, c.heads_q}, Layout::bhsd, DType::fp32);
    gradients.dsinks = static_cast<float*>(dsinks.view.data);
  }
  o.buffer->remember(), lse.buffer->remember();
  BackwardInputs inputs{.o = o.view, .lse = lse_data, .d_o = data.d_o.view, .lse_stride = lse_stride};
  if (c.d_lse) {
    inputs.d_lse = static_cast<const float*>(data.d_lse.view.data);
    std::copy_n(data.d_lse.view.stride.begin(), 3, inputs.d_lse_stride.begin());
  }
  {
    Execution pass = execution;
    std::optional<Workspace> workspace;
    if (options.own_workspace) workspace.emplace(attention, Pass::backward, pass);
    backward(attention, inputs, gradients, pass);
    if (workspace) out.complain("backward workspace", workspace->tensor.buffer->stray_write());
  }
  out.complain("backward", data.changed());
  out.complain("backward, O", o.buffer->changed());
  out.complain("backward, LSE", lse.buffer->changed());
  const std::pair<const Tensor*, std::vector<double> Results::*> written[] = {
      {&dq, &Results::dq},       {&dk, &Results::dk},         {&dv, &Results::dv},
      {&dbias, &Results::dbias}, {&dsinks, &Results::dsinks},
  };
  for (const auto& [gradient, member] : written) {
    if (!gradient->buffer) continue;
    out.complain("gradients", gradient->buffer->stray_write());
    out.results.*member = gradient->gather();
  }
  return out;
}

Results oracle_forward(const Data& data, int threads) {
  Problem problem = validate_query(data.attention(), Pass::forward, {.threads = threads});
  data.complete(problem);
  const Shape shape = data.shape_o();
  Results results;
  results.o.resize(static_cast<std::size_t>(count_of(shape)));
  results.lse.resize(static_cast<std::size_t>(shape[0] * shape[1] * shape[2]));
  reference::forward64(problem, results.o.data(), results.lse.data());
  return results;
}

Results oracle(const Data& data, int threads) {
  const Case& c = data.c;
  Results results = oracle_forward(data, threads);
  Problem problem = validate_query(data.attention(), Pass::backward, {.threads = threads});
  data.complete(problem);
  const auto size = [](std::vector<double>& values, const Shape& shape) {
    values.resize(static_cast<std::size_t>(count_of(shape)));
    return values.data();
  };
  reference::Gradients64 gradients;
  gradients.dq = size(results.dq, data.shape_q());
  gradients.dk = size(results.dk, data.shape_k());
  gradients.dv = size(results.dv, data.shape_v());
  if (c.bias && c.dbias) gradients.dbias = size(results.dbias, c.bias_dims());
  if (c.sinks) gradients.dsinks = size(results.dsinks, {1, 1, 1, c.heads_q});
  reference::backward64(problem, gradients);
  return results;
}

}  // namespace strobe::test
