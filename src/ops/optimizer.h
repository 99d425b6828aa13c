// AdamW with decoupled weight decay over all parameter tensors of a model, and the norm of their gradients. Called by
// lm/.
#pragma once

#include <cstdint>
#include <span>

#include "ops/execution_context.h"
#include "strobe/dtype.h"

namespace strobe::ops {

// One parameter tensor: the fp32 master values, their gradient, AdamW's moments, and a copy in another type for matmuls
// that are not fp32. Each array is [count].
struct Trained {
  std::int64_t count = 0;
  float* value = nullptr;
  const float* gradient = nullptr;
  float *mean = nullptr, *variance = nullptr;  // running averages of the gradient and of its square
  void* copy = nullptr;                        // values rounded to copy_dtype; null if there is no copy
  DType copy_dtype = DType::fp32;
};

struct AdamW {
  double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.01;
  std::int64_t step = 1;      // current step, from 1
  double gradient_scale = 1;  // factor applied to the gradients, such as the inverse of the loss scale
};

// Arguments of one step. On CUDA they are in device memory, so that a replayed graph reads new values.
struct Update {
  float beta1 = 0, beta2 = 0, rest1 = 0, rest2 = 0;  // rest: 1 - beta
  float rate = 0, unbias2 = 0;                       // learning rate / (1 - beta1^step); 1 / sqrt(1 - beta2^step)
  float shrink = 0, eps = 0;                         // shrink: 1 - learning rate * decay
  float gradient_scale = 1;                          // limit_gradients() may reduce it
  float loss_scale = 1;            // CrossEntropy::loss_scale points here; gradient_scale includes its inverse
  float most = 0;                  // maximum norm of the gradients (clipping); 0: no limit
  std::int32_t skip_infinite = 0;  // nonzero: limit_gradients() sets `skip` if a gradient is not finite
  std::int32_t skip = 0;           // nonzero: adamw() does not update values, but still writes their copies
  double norm = 0;                 // set by limit_gradients(): norm of the gradients times the previous gradient_scale
};

Update update_of(const AdamW& options);

// Computes value -= rate (decay value + mean' / (sqrt(variance') + eps)), where ' means bias-corrected and `rate` is
// the learning rate. Then writes the copies. Processes tensors one after the other, because a copy may share memory
// with the gradient of an earlier tensor.
void adamw(const ExecutionContext& execution, const AdamW& options, std::span<const Trained> tensors);
void adamw(const ExecutionContext& execution, const Update* update, std::span<const Trained> tensors);

// Computes the norm of the gradients times gradient_scale, and passes it to apply_norm(). Does not wait for the GPU.
void limit_gradients(const ExecutionContext& execution, std::span<const Trained> tensors, Update* update);

// Updates the copies after other code has written the values.
void round_copies(const ExecutionContext& execution, std::span<const Trained> tensors);

// Returns the L2 norm of all gradients, times `scale`, on the host. The result is NaN or infinity if a gradient is not
// finite.
double gradient_norm(const ExecutionContext& execution, std::span<const Trained> tensors, double scale = 1);

// Returns the factor that limits gradients of this norm to `most`. It is 1 if the norm is not larger than `most`, or if
// `most` is 0 (no clipping).
constexpr double clip_factor(double norm, double most) { return most > 0 && norm > most ? most / norm : 1; }

// Sets norm and skip. If the norm is finite, multiplies gradient_scale by the clip factor. Also runs on the GPU.
constexpr void apply_norm(Update& update, double norm) {
  const bool finite = norm - norm == 0;
  update.norm = norm;
  update.skip = update.skip_infinite != 0 && !finite ? 1 : 0;
  if (finite) update.gradient_scale *= static_cast<float>(clip_factor(norm, update.most));
}

}  // namespace strobe::ops
