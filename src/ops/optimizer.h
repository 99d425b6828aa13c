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

// A step's numbers as kernels read them, in memory of the place: a graph that was captured once is replayed with new
// ones.
struct Update {
  float beta1 = 0, beta2 = 0, rest1 = 0, rest2 = 0;  // rest: 1 - beta
  float rate = 0, unbias2 = 0;                       // the bias of the first steps is in these
  float shrink = 0, eps = 0;
  float gradient_scale = 1;        // limit_gradients makes it smaller
  float loss_scale = 1;            // what the loss was multiplied with, for cross_entropy(); gradient_scale undoes it
  float most = 0;                  // norm that limit_gradients leaves; 0: any
  std::int32_t skip_infinite = 0;  // whether limit_gradients turns `skip` on where a gradient is not finite
  std::int32_t skip = 0;           // adamw() changes nothing, and writes copies of what is there
  double norm = 0;                 // limit_gradients: of the gradients times gradient_scale as it was
};

Update update_of(const AdamW& options);

// value -= rate (decay value + mean' / (sqrt(variance') + eps)), ' with the bias of the first steps taken out. One
// tensor after the other: a copy may lie where the gradient of an earlier one does.
void adamw(const Place& place, const AdamW& options, std::span<const Trained> tensors);
void adamw(const Place& place, const Update* update, std::span<const Trained> tensors);

// Fills in update->norm, and what follows from it: gradient_scale and skip. Nothing waits for the GPU.
void limit_gradients(const Place& place, std::span<const Trained> tensors, Update* update);

// The copies anew, after values were written by others.
void round_copies(const Place& place, std::span<const Trained> tensors);

// sqrt of the sum of all squares, times `scale`; NaN or infinity where a gradient is not finite. On the host.
double gradient_norm(const Place& place, std::span<const Trained> tensors, double scale = 1);

// What brings a gradient of that norm to at most `most`; 1 where it is not above it, or `most` is 0: no clipping.
constexpr double clip_factor(double norm, double most) { return most > 0 && norm > most ? most / norm : 1; }

// What follows from the norm. On the GPU too.
constexpr void apply_norm(Update& update, double norm) {
  const bool finite = norm - norm == 0;
  update.norm = norm;
  update.skip = update.skip_infinite != 0 && !finite ? 1 : 0;
  if (finite) update.gradient_scale *= static_cast<float>(clip_factor(norm, update.most));
}

}  // namespace strobe::ops
