// AdamW with decoupled decay over all tensors of a model at a time, and the norm of their gradients.
#pragma once

#include <cstdint>
#include <span>

#include "ops/place.h"
#include "strobe/dtype.h"

namespace strobe::ops {

// One tensor of parameters, [count] each: the fp32 ones that are trained, their gradient and state, and the copy that
// products read, where it has a type of its own.
struct Trained {
  std::int64_t count = 0;
  float* value = nullptr;
  const float* gradient = nullptr;
  float *mean = nullptr, *variance = nullptr;  // running averages of the gradient and of its square
  void* copy = nullptr;                        // rounded to copy_dtype; null: none
  DType copy_dtype = DType::fp32;
};

struct AdamW {
  double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.01;
  std::int64_t step = 1;      // this one, from 1
  double gradient_scale = 1;  // what gradients are multiplied with first: clipping, loss scaling undone
};

// value -= rate (decay value + mean' / (sqrt(variance') + eps)), ' with the bias of the first steps taken out.
void adamw(const Place& place, const AdamW& options, std::span<const Trained> tensors);

// The copies anew, after values were written by others.
void round_copies(const Place& place, std::span<const Trained> tensors);

// sqrt of the sum of all squares, times `scale`; NaN or infinity where a gradient is not finite. On the host.
double gradient_norm(const Place& place, std::span<const Trained> tensors, double scale = 1);

// What brings a gradient of that norm to at most `most`; 1 where it is not above it, or `most` is 0: no clipping.
double clip_factor(double norm, double most);

}  // namespace strobe::ops
