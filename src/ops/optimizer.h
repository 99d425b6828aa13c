// AdamW with decoupled weight decay over all tensors of a model, and the norm of their gradients.
#pragma once

#include <cstdint>
#include <span>

#include "ops/place.h"
#include "strobe/dtype.h"

namespace strobe::ops {

// One parameter tensor, [count] each: the fp32 master values, their gradient, AdamW's moments, and the copy that
// matmuls read if its type is not fp32.
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
  std::int64_t step = 1;      // current step, from 1
  double gradient_scale = 1;  // first factor of the gradients, such as the inverse of the loss scale
};

// Parameters of one step in device memory, so that a replayed graph gets new values.
struct Update {
  float beta1 = 0, beta2 = 0, rest1 = 0, rest2 = 0;  // rest: 1 - beta
  float rate = 0, unbias2 = 0;                       // both include the bias correction
  float shrink = 0, eps = 0;
  float gradient_scale = 1;        // limit_gradients() may reduce it
  float loss_scale = 1;            // factor of the loss, for cross_entropy(); gradient_scale undoes it
  float most = 0;                  // maximum norm after limit_gradients(); 0: no limit
  std::int32_t skip_infinite = 0;  // nonzero: limit_gradients() sets `skip` if a gradient is not finite
  std::int32_t skip = 0;           // nonzero: adamw() does not update the values, but writes their copies
  double norm = 0;                 // set by limit_gradients(): norm of the gradients times the previous gradient_scale
};

Update update_of(const AdamW& options);

// value -= rate (decay value + mean' / (sqrt(variance') + eps)), where ' means bias-corrected. Processes tensors one
// after the other, because a copy may share memory with the gradient of an earlier tensor.
void adamw(const Place& place, const AdamW& options, std::span<const Trained> tensors);
void adamw(const Place& place, const Update* update, std::span<const Trained> tensors);

// Sets update->norm, and from it gradient_scale and skip. Does not wait for the GPU.
void limit_gradients(const Place& place, std::span<const Trained> tensors, Update* update);

// Updates the copies after other code has written the values.
void round_copies(const Place& place, std::span<const Trained> tensors);

// Returns the square root of the sum of all squares, times `scale`, on the host. NaN or infinity if a gradient is not
// finite.
double gradient_norm(const Place& place, std::span<const Trained> tensors, double scale = 1);

// Factor that limits a gradient of this norm to `most`; 1 if the norm is not above it, or if `most` is 0 (no clipping).
constexpr double clip_factor(double norm, double most) { return most > 0 && norm > most ? most / norm : 1; }

// Sets the fields that depend on the norm. Also runs on the GPU.
constexpr void apply_norm(Update& update, double norm) {
  const bool finite = norm - norm == 0;
  update.norm = norm;
  update.skip = update.skip_infinite != 0 && !finite ? 1 : 0;
  if (finite) update.gradient_scale *= static_cast<float>(clip_factor(norm, update.most));
}

}  // namespace strobe::ops
