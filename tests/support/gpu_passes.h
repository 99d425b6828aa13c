// Runs both passes of a case on the GPU with all memory allocated in advance, so a launch only enqueues work. Used by
// tests of repeated runs, CUDA graphs and threads.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "attention/validate.h"
#include "support/gpu.h"

namespace strobe::test {

class GpuPasses {
 public:
  GpuPasses(GpuCase& on_gpu, GpuLane& lane, const GpuRunOptions& options)
      : on_gpu_(on_gpu), attention_(on_gpu.attention()), lane_(lane) {
    execution_ = {.device = Device::cuda,
                  .kernel = options.kernel,
                  .deterministic = options.deterministic,
                  .tf32 = options.tf32,
                  .stream = lane.stream.handle()};
    Shape shape_o = attention_.q.shape;
    shape_o[3] = attention_.v.shape[3];
    const DType dtype = attention_.q.dtype;
    o_ = output("O", dtype, shape_o);
    lse_ = output("LSE", DType::fp32, {shape_o[0], shape_o[1], shape_o[2], 1});
    gradients_.dq = output("dQ", dtype, attention_.q.shape);
    gradients_.dk = output("dK", dtype, attention_.k.shape);
    gradients_.dv = output("dV", dtype, attention_.v.shape);
    if (attention_.bias.data) gradients_.dbias = output("dbias", DType::fp32, attention_.bias.shape);
    if (attention_.sinks) {
      gradients_.dsinks = static_cast<float*>(output("dsinks", DType::fp32, {1, 1, 1, attention_.q.shape[1]}).data);
    }
    std::size_t bytes = 0;
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      bytes = std::max(bytes, workspace_bytes(attention_, pass, execution_));
    }
    workspace_ = GpuBuffer(bytes);
    execution_.workspace = workspace_.data();
    execution_.workspace_bytes = bytes;
  }

  // Fills every output and the workspace with NaN.
  void poison() {
    for (auto& [name, buffer] : outputs_) buffer.fill(0x7fc0ffeeu, lane_.stream);
    if (workspace_.bytes() >= 4) workspace_.fill(0x7fc0ffeeu, lane_.stream);
  }

  void launch() const {
    launch_forward(execution_.stream);
    launch_backward(execution_.stream);
  }

  void launch_forward(void* stream) const {
    Execution execution = execution_;
    execution.stream = stream;
    forward(attention_, {.o = o_, .lse = static_cast<float*>(lse_.data)}, execution);
  }

  void launch_backward(void* stream) const {
    Execution execution = execution_;
    execution.stream = stream;
    backward(attention_, on_gpu_.backward_inputs(o_, static_cast<float*>(lse_.data)), gradients_, execution);
  }

  // Returns the problem that launch_backward() passes to a kernel together with workspace().
  Problem backward_problem() const {
    return validate_backward(attention_, on_gpu_.backward_inputs(o_, static_cast<float*>(lse_.data)), gradients_,
                             execution_);
  }
  void* workspace() const { return execution_.workspace; }

  // Waits for the stream, then returns the bytes of every output, by name.
  std::map<std::string, std::vector<char>> outputs() const {
    std::map<std::string, std::vector<char>> all;
    for (const auto& [name, buffer] : outputs_) {
      std::vector<char>& bytes = all[name];
      bytes.resize(buffer.bytes());
      lane_.stream.copy(bytes.data(), buffer.data(), bytes.size());
    }
    lane_.stream.synchronize();
    return all;
  }

 private:
  View output(const char* name, DType dtype, const Shape& shape) {
    const std::size_t bytes = static_cast<std::size_t>(count_of(shape)) * size_of(dtype);
    GpuBuffer& buffer = outputs_[name] = GpuBuffer((bytes + 3) / 4 * 4);
    return view_bhsd(buffer.data(), dtype, shape);
  }

  GpuCase& on_gpu_;
  Attention attention_;
  GpuLane& lane_;
  Execution execution_;
  View o_, lse_;
  Gradients gradients_;
  std::map<std::string, GpuBuffer> outputs_;
  GpuBuffer workspace_;
};

}  // namespace strobe::test
