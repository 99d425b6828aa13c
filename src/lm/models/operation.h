// An operation of the model as it runs, and who is told of it: memory timelines and profiles are made from these. Where
// nobody records, nothing of it is made.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace strobe::lm {

// Parts of a step, for measurements.
enum class Phase { forward, backward, update };

enum class OperationKind { product, attention, norm, elementwise, loss, optimizer, copy };

// A tensor of the memory plan, by its index in the table, and the bytes used of it; 0: all.
struct TensorUse {
  TensorUse(std::size_t index, std::size_t part = 0) : tensor(index), bytes(part) {}
  std::size_t tensor, bytes;
};

struct Operation {
  const char* name;  // the function: "linear", "rms_norm backward"
  OperationKind kind = OperationKind::product;
  Phase phase = Phase::forward;
  std::string of{};  // whose: "layers.0.attention.q+k+v"
  std::vector<TensorUse> reads{}, writes{};
  std::size_t parameter = 0, gradients = 0;  // gradients of so many parameters from that one on are written
  double flops = 0;                          // of products, those of attention included
  std::size_t other_bytes = 0;               // read or written beside the plan's tensors: parameters, gradients
};

class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual void begin(const Operation& operation) = 0;
  virtual void end() = 0;
};

// From begin() to the end of the scope; with a null recorder nothing.
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
