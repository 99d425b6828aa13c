// Seconds of a training step on a mesh: computing, communication, and the exposed part of communication.
#pragma once

#include <cstdint>
#include <optional>

#include "lm/plan/device_memory.h"
#include "lm/plan/machine.h"

namespace strobe::lm {

// Time of the slowest stage, which the other stages wait for. A pipeline runs its micro-batches by the 1F1B schedule.
struct StepTime {
  double forward = 0, backward = 0, update = 0;  // computing, of all micro-batches
  double tensor = 0;                             // all-reduces of activations, never overlapped
  double bubble = 0;    // idle time waiting for other stages: (stages - 1) micro-batches if all are equal
  double pipeline = 0;  // activations and their gradients sent between stages, not overlapped
  // Sum of all calls that can overlap with forward (gathering parameters) and with backward (gradients, and gathering
  // parameters again).
  double forward_exchange = 0, backward_exchange = 0;
  double last_exchange = 0;          // part of backward_exchange during the last micro-batch's backward
  double exposed = 0;                // exposed part of the two, after forward and backward have ended
  double gather = 0;                 // all-gather of updated parameters, not overlapped
  double inside = 0, between = 0;    // bytes that a device sends within its node and to other nodes
  double last_backward = 0;          // backward of the last micro-batch, in seconds
  double calls = 0, call_bytes = 0;  // calls of the exchange in backward, bytes of one call's vector; 0: none

  double computing() const { return forward + backward + update; }
  double waiting() const { return tensor + bubble + pipeline + exposed + gather; }
  double step() const { return computing() + waiting(); }
  // Returns true if computing overlaps every overlappable call except the last. Gradients are summed over micro-batches
  // and exchanged in the last one.
  bool hides() const { return forward_exchange <= forward && last_exchange <= last_backward; }
};

// Returns the bytes of gradients per exchange call in backward. All gradients are split into as many equal calls as
// buckets of `wanted` bytes would need. Default of `wanted`: best_bucket_bytes, between 1 MB and all gradients. Sharded
// parameters are exchanged unit by unit instead: embedding, blocks, unembedding. Returns 0 if nothing is exchanged.
double bucket_bytes_of(const SharedStep& step, const Machine& machine, std::optional<double> wanted = {});

// Returns the time of a step. bucket_bytes: passed to bucket_bytes_of as `wanted`.
StepTime step_time(const SharedStep& step, const Machine& machine, std::optional<double> bucket_bytes = {});

// Bytes that an update moves per parameter. AdamW reads the value, the gradient and two moments, and writes the value
// and the moments, all fp32. It also writes the copy that matmuls read.
double update_bytes(Precision precision);

// Exposed seconds of sequential calls whose data become ready at equal intervals over `seconds` of computing: max(0,
// all
// - last - (1 - 1 / calls) seconds) + last. All calls except the last can overlap, from the time at which the first is
// ready. all: seconds of all calls; last: seconds of the last call.
double exposed_seconds(double calls, double all, double last, double seconds);

// Returns sqrt(total x bandwidth x overhead), in bytes. Larger buckets expose more of the last call; smaller ones need
// more calls. Optimal if computing takes as long as transferring the bytes. bandwidth: bytes of the vector per second,
// that is bus bandwidth divided by the bus factor. overhead: seconds of a call without bytes.
double best_bucket_bytes(double total_bytes, double bandwidth, double overhead);

// Returns the smallest batch of a tensor-parallel group at which the exchange is fully overlapped, at most 9e15.
// Returns 1 if there is no exchange.
std::int64_t least_batch(const SharedStep& step, const Machine& machine, std::optional<double> bucket_bytes = {});

}  // namespace strobe::lm
