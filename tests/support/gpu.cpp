// Implements GPU memory, copies and kernel calls for test cases.
#include "support/gpu.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "attention/kernel.h"
#include "attention/validate.h"
#include "device/gpu_facts.h"

namespace strobe::test {
namespace {

constexpr std::uint32_t kNanWord = 0x7fc0ffeeu;  // NaN in fp32; both 16-bit halves are NaN in bf16 and fp16
constexpr std::size_t kGuard = 1024;             // guard bytes after a workspace

std::size_t rounded_up(std::size_t bytes, std::size_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }

}  // namespace

void GpuTest::SetUp() {
  const CurrentGpu gpu = current_gpu();
  if (!gpu.reason.empty()) GTEST_SKIP() << gpu.reason;
}

std::vector<std::string> gpu_kernels() {
  const char* const only = std::getenv("STROBE_TEST_KERNEL");
  std::vector<std::string> names = kernel_names(Device::cuda);
  if (only) std::erase_if(names, [&](const std::string& name) { return name != only; });
  if (!only) names.emplace_back();
  return names;
}

std::string gpu_refusal(const Attention& attention, std::string_view kernel) {
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (const Verdict& verdict : explain(attention, pass, {.device = Device::cuda})) {
      if (verdict.kernel == kernel && !verdict.refusal.empty()) return verdict.refusal;
    }
  }
  return {};
}

bool needs_hopper(std::string_view refusal) {
  for (const char* words : {"sm_90a", "compute capability", "shared memory"}) {
    if (refusal.find(words) != std::string_view::npos) return true;
  }
  return false;
}

GpuArena::GpuArena(std::size_t bytes) : is_separate_(std::getenv("STROBE_TEST_SEPARATE") != nullptr) {
  if (!is_separate_) block_ = GpuBuffer(bytes);
}

char* GpuArena::take(std::size_t bytes, std::size_t phase) {
  const std::size_t begin = rounded_up(used_, 256);
  if (!is_separate_ && begin + phase + bytes <= block_.bytes()) {
    used_ = begin + phase + bytes;
    return block_.as<char>() + begin + phase;
  }
  separate_.emplace_back(phase + std::max<std::size_t>(bytes, 1));
  return separate_.back().as<char>() + phase;
}

void GpuArena::clear() {
  used_ = 0;
  separate_.clear();
}

// A workspace of exactly workspace_bytes(), filled with NaN and followed by guard bytes. It is not filled if buffers
// are separate allocations (STROBE_TEST_SEPARATE), so compute-sanitizer's initcheck reports reads of unwritten bytes.
struct GpuCase::Workspace {
  Workspace(const Attention& attention, Pass pass, Execution& execution, const GpuLane& lane)
      : bytes(workspace_bytes(attention, pass, execution)), memory(rounded_up(bytes, 4) + kGuard) {
    if (!lane.arena.is_separate()) memory.fill(kNanWord, lane.stream);
    lane.stream.copy(memory.as<char>() + rounded_up(bytes, 4), guard.data(), kGuard);
    execution.workspace = bytes ? memory.data() : nullptr;
    execution.workspace_bytes = bytes;
  }

  std::string overrun(const GpuLane& lane) const {
    std::vector<std::uint32_t> now(guard.size());
    lane.stream.copy(now.data(), memory.as<char>() + rounded_up(bytes, 4), kGuard);
    lane.stream.synchronize();
    return now == guard ? "" : fmt::format("memory past its {} bytes was written", bytes);
  }

  std::vector<std::uint32_t> guard = std::vector<std::uint32_t>(kGuard / 4, kNanWord);
  std::size_t bytes;
  GpuBuffer memory;
};

GpuCase::GpuCase(const Data& data, GpuLane& lane) : data_(data), lane_(lane), attention_(data.attention()) {
  lane_.arena.clear();
  attention_.q = upload(data.q);
  attention_.k = upload(data.k);
  attention_.v = upload(data.v);
  d_o_ = upload(data.d_o);
  const Case& c = data.c;
  if (c.bias) attention_.bias = upload(data.bias);
  const auto floats = [&](const std::vector<float>& values) {
    return static_cast<const float*>(upload_array(values.data(), values.size() * sizeof(float)));
  };
  if (c.alibi) attention_.alibi_slopes = floats(data.alibi_slopes);
  if (c.sinks) attention_.sinks = floats(data.sinks);
  if (c.mask) attention_.mask.data = upload_array(data.mask.data(), data.mask.size());
  if (c.d_lse) d_lse_ = upload(data.d_lse);
  for (IndexView* indices : {&attention_.lengths_q, &attention_.lengths_k, &attention_.cu_seqlens_q,
                             &attention_.cu_seqlens_k, &attention_.first_keys}) {
    if (!indices->data) continue;
    const auto bytes = static_cast<std::size_t>(indices->count * indices->bits / 8);
    indices->data = upload_array(indices->data, bytes);
  }
  if (c.packed() && (c.bias || c.mask || c.seed % 2 == 0)) {
    attention_.max_seqlen_q = c.sq;
    attention_.max_seqlen_k = c.sk;
  }
}

std::string GpuCase::refusal(std::string_view kernel, std::optional<Pass> only) const {
  // Describes the outputs with the strides that run() uses, because a kernel may refuse them. Their memory is not
  // accessed.
  const Case& c = data_.c;
  const auto tensor = [&](const Shape& shape) { return make_tensor({c.dtype, shape, c.layout_out, c.misalign}); };
  const Tensor o = tensor(data_.shape_o());
  Tensor dq = tensor(data_.shape_q()), dk = tensor(data_.shape_k()), dv = tensor(data_.shape_v());
  if (c.fused) {
    const auto parts =
        make_fused(c.dtype, {o.view.shape[0], 0, o.view.shape[2], c.d}, {c.heads_q, c.heads_kv, c.heads_kv});
    dq = parts[0], dk = parts[1], dv = parts[2];
  }
  const Gradients gradients{.dq = dq.view, .dk = dk.view, .dv = dv.view};
  float some = 0;
  const Execution execution{.device = Device::cuda};
  const Problem passes[] = {
      validate_forward(attention_, {.o = o.view, .lse = &some}, execution),
      validate_backward(attention_, backward_inputs(o.view, &some), gradients, execution),
  };
  for (const Kernel& candidate : kernels()) {
    if (candidate.name != kernel) continue;
    for (const Problem& problem : passes) {
      if ((only && problem.pass != *only) || !candidate.serves(problem)) continue;
      if (std::string reason = candidate.plan(problem).refusal; !reason.empty()) return reason;
    }
  }
  return {};
}

BackwardInputs GpuCase::backward_inputs(const View& o, const float* lse) const {
  BackwardInputs inputs{.o = o, .lse = lse, .d_o = d_o_};
  inputs.d_lse = static_cast<const float*>(d_lse_.data);
  if (inputs.d_lse) std::copy_n(d_lse_.stride.begin(), 3, inputs.d_lse_stride.begin());
  return inputs;
}

void* GpuCase::upload_array(const void* from, std::size_t bytes) {
  void* to = lane_.arena.take(bytes);
  lane_.stream.copy(to, from, bytes);
  return to;
}

View GpuCase::upload(const Tensor& tensor) {
  const GuardedBuffer& buffer = *tensor.buffer;
  const std::vector<char>& bytes = buffer.bytes();
  auto found = places_.find(&buffer);
  if (found == places_.end()) {
    const std::size_t phase = reinterpret_cast<std::uintptr_t>(bytes.data()) % 256;
    found = places_.emplace(&buffer, lane_.arena.take(bytes.size(), phase)).first;
  }
  lane_.stream.copy(found->second, bytes.data(), bytes.size());
  View view = tensor.view;
  if (view.data) view.data = found->second + (static_cast<char*>(view.data) - bytes.data());
  return view;
}

void GpuCase::download(Tensor& tensor) {
  std::vector<char>& bytes = tensor.buffer->bytes();
  lane_.stream.copy(bytes.data(), place_of(*tensor.buffer), bytes.size());
  lane_.stream.synchronize();
}

std::string GpuCase::changed_input() {
  for (const Tensor* tensor : {&data_.q, &data_.k, &data_.v, &data_.d_o, &data_.bias, &data_.d_lse}) {
    if (!tensor->buffer) continue;
    const std::vector<char>& bytes = tensor->buffer->bytes();
    std::vector<char> now(bytes.size());
    lane_.stream.copy(now.data(), place_of(*tensor->buffer), now.size());
    lane_.stream.synchronize();
    if (now != bytes) return "an input was written";
  }
  return {};
}

Outcome GpuCase::run(const GpuRunOptions& options) {
  const Case& c = data_.c;
  Outcome out;
  const auto tensor = [&](const Shape& shape, Layout layout, DType dtype) {
    return make_tensor({dtype, shape, layout, c.misalign});
  };
  const Shape shape_o = data_.shape_o();
  const Execution execution{.device = Device::cuda,
                            .kernel = options.kernel,
                            .deterministic = options.deterministic,
                            .tf32 = options.tf32,
                            .stream = lane_.stream.handle()};

  Tensor o = tensor(shape_o, c.layout_out, c.dtype);
  Tensor lse = tensor({shape_o[0], shape_o[1], shape_o[2], 1}, Layout::bhsd, DType::fp32);
  const View o_view = upload(o);
  auto* const lse_data = static_cast<float*>(upload(lse).data);
  {
    Execution pass = execution;
    const Workspace workspace(attention_, Pass::forward, pass, lane_);
    forward(attention_, {.o = o_view, .lse = lse_data}, pass);
    out.complain("forward workspace", workspace.overrun(lane_));
  }
  download(o), download(lse);
  out.complain("O", o.buffer->stray_write());
  out.complain("LSE", lse.buffer->stray_write());
  out.results.o = o.gather();
  out.results.lse = lse.gather();
  if (options.forward_only) {
    out.complain("forward", changed_input());
    places_.erase(o.buffer.get()), places_.erase(lse.buffer.get());
    return out;
  }

  Tensor dq, dk, dv, dbias, dsinks;
  if (c.fused) {
    auto parts = make_fused(c.dtype, {shape_o[0], 0, shape_o[2], c.d}, {c.heads_q, c.heads_kv, c.heads_kv});
    dq = parts[0], dk = parts[1], dv = parts[2];
  } else {
    dq = tensor(data_.shape_q(), c.layout_out, c.dtype);
    dk = tensor(data_.shape_k(), c.layout_out, c.dtype);
    dv = tensor(data_.shape_v(), c.layout_out, c.dtype);
  }
  Gradients gradients{.dq = upload(dq), .dk = upload(dk), .dv = upload(dv)};
  if (c.bias && c.dbias) {
    dbias = tensor(c.bias_dims(), c.layout_out, DType::fp32);
    gradients.dbias = upload(dbias);
  }
  if (c.sinks) {
    dsinks = tensor({1, 1, 1, c.heads_q}, Layout::bhsd, DType::fp32);
    gradients.dsinks = static_cast<float*>(upload(dsinks).data);
  }
  o.buffer->remember(), lse.buffer->remember();
  {
    Execution pass = execution;
    const Workspace workspace(attention_, Pass::backward, pass, lane_);
    backward(attention_, backward_inputs(o_view, lse_data), gradients, pass);
    out.complain("backward workspace", workspace.overrun(lane_));
  }
  download(o), download(lse);
  out.complain("backward", changed_input());
  out.complain("backward, O", o.buffer->changed());
  out.complain("backward, LSE", lse.buffer->changed());
  const std::pair<Tensor*, std::vector<double> Results::*> written[] = {
      {&dq, &Results::dq},       {&dk, &Results::dk},         {&dv, &Results::dv},
      {&dbias, &Results::dbias}, {&dsinks, &Results::dsinks},
  };
  for (const auto& [gradient, member] : written) {
    if (!gradient->buffer) continue;
    download(*gradient);
    out.complain("gradients", gradient->buffer->stray_write());
    out.results.*member = gradient->gather();
  }
  for (const Tensor* made : {&o, &lse, &dq, &dk, &dv, &dbias, &dsinks}) {  // new buffers may get the same addresses
    if (made->buffer) places_.erase(made->buffer.get());
  }
  return out;
}

}  // namespace strobe::test
