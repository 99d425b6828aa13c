// A recorded operation of a model, and the recorder interface. Memory timelines and profiles use them. Without a
// recorder, operations are not constructed.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace strobe::lm {

// Phases of a step, for measurements.
enum class Phase { forward, backward, update };

enum class OperationKind { matmul, attention, norm, elementwise, loss, optimizer, copy };

// A tensor of the memory plan, by its index in the table, and the bytes that are used; 0: all.
struct TensorUse {
  TensorUse(std::size_t index, std::size_t part = 0) : tensor(index), bytes(part) {}
  std::size_t tensor, bytes;
};

struct Operation {
  const char* name;  // the function: "linear", "rms_norm backward"
  OperationKind kind = OperationKind::matmul;
  Phase phase = Phase::forward;
  std::string of{};  // parameters, such as "layers.0.attention.q+k+v"
  std::vector<TensorUse> reads{}, writes{};
  std::size_t parameter = 0, gradients = 0;  // writes the gradients of `gradients` parameters from `parameter` on
  double flops = 0;                          // FLOPs of matmuls, including attention's
  std::size_t other_bytes = 0;               // bytes read or written outside the plan's tensors: parameters, gradients
};

class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual void begin(const Operation& operation) = 0;
  virtual void end() = 0;
};

// RAII scope of an operation: calls begin(), and end() at the end of the scope. A default-constructed one does nothing.
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
