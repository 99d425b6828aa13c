// Predicts the time of a training step on a mesh: computing, communication, and the exposed part of communication.
// `strobe plan` uses it.
#pragma once

#include <cstdint>
#include <optional>

#include "lm/plan/device_memory.h"
#include "lm/plan/machine.h"

namespace strobe::lm {

// Seconds of a step in the slowest stage, for which the other stages wait. A pipeline runs its micro-batches in the
// 1F1B schedule.
struct StepTime {
  double forward = 0, backward = 0, update = 0;  // computing, for all micro-batches
  double tensor = 0;                             // all-reduces of activations, never overlapped
  double bubble = 0;                             // idle time; with equal stages, that of (stages - 1) micro-batches
  double pipeline = 0;  // sending activations and their gradients between stages, not overlapped
  // All calls that can overlap with forward (gathering parameters) and with backward (exchanging gradients, and
  // gathering parameters again).
  double forward_exchange = 0, backward_exchange = 0;
  double last_exchange = 0;          // the part of backward_exchange that can overlap with last_backward
  double exposed = 0;                // the part of both exchanges that is not overlapped
  double gather = 0;                 // all-gather of updated parameters, not overlapped
  double inside = 0, between = 0;    // bytes that a device sends within its node and to other nodes
  double last_backward = 0;          // computing the backward of the last micro-batch
  double calls = 0, call_bytes = 0;  // number of exchange calls in backward, and bytes of each; 0: none

  double computing() const { return forward + backward + update; }
  double waiting() const { return tensor + bubble + pipeline + exposed + gather; }
  double step() const { return computing() + waiting(); }
  // Returns true if computing takes at least as long as the calls that can overlap with it. Gradients are summed over
  // micro-batches and exchanged in the last one.
  bool hides() const { return forward_exchange <= forward && last_exchange <= last_backward; }
};

// Returns the bytes of gradients per exchange call in backward. Gradients are split into the smallest number of equal
// calls of at most `wanted` bytes. By default `wanted` is best_bucket_bytes(), limited to between 1 MB and all
// gradients. With sharded parameters there is one call per unit (embedding, each block, unembedding); the result is
// their mean size. Returns 0 if nothing is exchanged.
double bucket_bytes_of(const SharedStep& step, const Machine& machine, std::optional<double> wanted = {});

// Returns the time of a step. `bucket_bytes` is passed to bucket_bytes_of() as `wanted`.
StepTime step_time(const SharedStep& step, const Machine& machine, std::optional<double> bucket_bytes = {});

// Returns the bytes that an update reads and writes per parameter. AdamW reads the value, the gradient and two moments,
// and writes the value and the moments, all fp32. In bf16 and fp16 it also writes the copy that matmuls read.
double update_bytes(Precision precision);

// Returns the exposed seconds of `calls` sequential calls whose data become ready at equal intervals over `seconds` of
// computing:
//   max(0, all - last - (1 - 1 / calls) * seconds) + last
// `all` and `last` are the seconds of all calls and of the last call. All calls except the last can overlap with
// computing, from the time at which the first is ready.
double exposed_seconds(double calls, double all, double last, double seconds);

// Returns sqrt(total_bytes * bandwidth * overhead), in bytes. Larger buckets expose more of the last call; smaller
// buckets need more calls. This size is optimal if computing takes as long as transferring the bytes. `bandwidth` is
// bytes of the vector per second, that is, bus bandwidth divided by the bus factor. `overhead` is the seconds of a call
// without bytes.
double best_bucket_bytes(double total_bytes, double bandwidth, double overhead);

// Returns the smallest batch of a tensor-parallel group for which StepTime::hides() is true, at most 9e15. Returns
// micro_batches if nothing is exchanged.
std::int64_t least_batch(const SharedStep& step, const Machine& machine, std::optional<double> bucket_bytes = {});

}  // namespace strobe::lm
