// Operation describes one operation of a model to a Recorder. Transformer constructs it. Memory timelines (memory/) and
// profiles (profile/) are recorders. Without a recorder, no Operation is constructed.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace strobe::lm {

// Phases of a training step.
enum class Phase { forward, backward, update };

enum class OperationKind { matmul, attention, norm, elementwise, loss, optimizer, copy };

// A tensor that an operation reads or writes: its index in the memory plan's table, and the bytes used (0: all).
struct TensorUse {
  TensorUse(std::size_t index, std::size_t part = 0) : tensor(index), bytes(part) {}
  std::size_t tensor, bytes;
};

struct Operation {
  const char* name;  // the function: "linear", "rms_norm backward"
  OperationKind kind = OperationKind::matmul;
  Phase phase = Phase::forward;
  std::string of{};  // its parameters: "layers.0.attention.q+k+v"
  std::vector<TensorUse> reads{}, writes{};
  std::size_t parameter = 0, gradients = 0;  // writes gradients of parameters [parameter, parameter + gradients)
  double flops = 0;                          // FLOPs of matmuls, including those of attention
  std::size_t other_bytes = 0;               // bytes that it reads or writes in addition to these tensors
};

class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual void begin(const Operation& operation) = 0;
  virtual void end() = 0;
};

// Scope of an operation: the constructor calls begin(), the destructor end(). A default-constructed scope does nothing.
class Recorded {
 public:
  Recorded() = default;
  Recorded(Recorder& recorder, const Operation& operation) : recorder_(&recorder) { recorder.begin(operation); }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;
  ~Recorded() {
    if (recorder_) recorder_->end();
  }

 private:
  Recorder* recorder_ = nullptr;
};

}  // namespace strobe::lm
