#include "lm/precision/accumulation.h"

#include "core/half.h"

namespace strobe::lm {

namespace {

// An element of a type in memory, as a tensor of one element is.
class Stored {
 public:
  Stored(DType dtype, float value) : dtype_(dtype) { set(value); }
  DType dtype() const { return dtype_; }
  float get() const { return load_element(bytes_, dtype_, 0); }
  void set(float value) { store_element(bytes_, dtype_, 0, value); }

 private:
  DType dtype_;
  alignas(float) char bytes_[sizeof(float)] = {};
};

}  // namespace

std::vector<Accumulation> accumulate_hundredths(int additions) {
  std::vector<Accumulation> all{{DType::fp32, DType::fp32},
                                {DType::fp16, DType::fp16},
                                {DType::fp16, DType::fp32},
                                {DType::fp16, DType::fp32, true}};
  for (Accumulation& one : all) {
    const Stored term(one.term, 0.01f);
    const Stored added = one.widened ? Stored(DType::fp32, term.get()) : term;
    Stored sum(one.sum, 0);
    for (int i = 0; i < additions; ++i) sum.set(sum.get() + added.get());
    one.result = static_cast<double>(sum.get());
  }
  return all;
}

}  // namespace strobe::lm
