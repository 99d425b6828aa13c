// Seconds of a training step on a mesh: computing, communication, and how much of that is waited for.
#pragma once

#include <cstdint>
#include <optional>

#include "lm/plan/device_memory.h"
#include "lm/plan/machine.h"

namespace strobe::lm {

// Time of the slowest stage; the other stages wait for it. A pipeline runs its micro-batches by the 1F1B
// schedule.
struct StepTime {
  double forward = 0, backward = 0, update = 0;  // computing, of all micro-batches
  double tensor = 0;                             // all-reduces of activations, every one waited for
  double bubble = 0;    // waiting for other stages: (stages - 1) micro-batches, if all are equal
  double pipeline = 0;  // activations and their gradients sent between stages, waited for
  // All calls one after the other: that can go on during forward (weights that are gathered), and during backward
  // (gradients, and weights once more).
  double forward_exchange = 0, backward_exchange = 0;
  double last_exchange = 0;          // part of backward_exchange during the last micro-batch's backward
  double exposed = 0;                // of the two, what remains when forward and backward have ended
  double gather = 0;                 // of updated weights, waited for
  double inside = 0, between = 0;    // bytes that a device sends, within its node and to other nodes
  double last_backward = 0;          // backward of the last micro-batch, s
  double calls = 0, call_bytes = 0;  // of the exchange in backward; bytes of one call's vector; 0: none

  double computing() const { return forward + backward + update; }
  double waiting() const { return tensor + bubble + pipeline + exposed + gather; }
  double step() const { return computing() + waiting(); }
  // True if computing hides every overlappable call except the last. Gradients are summed over micro-batches and
  // exchanged in the last one.
  bool hides() const { return forward_exchange <= forward && last_exchange <= last_backward; }
};

// Bytes of gradients that each call of the exchange in backward takes: all of them in as many equal calls as buckets of
// `wanted` make, or, without, of the best by best_bucket_bytes, from 1 MB to all. Weights that are split are exchanged
// unit by unit instead: embedding, blocks, unembedding. 0 where nothing is exchanged.
double bucket_bytes_of(const SharedStep& step, const Machine& machine, std::optional<double> wanted = {});

// bucket_bytes: what bucket_bytes_of is asked for.
StepTime step_time(const SharedStep& step, const Machine& machine, std::optional<double> bucket_bytes = {});

// Bytes a parameter: AdamW reads value, gradient and two averages and writes three of them, fp32, and the copy that
// products read.
double update_bytes(Precision precision);

// Calls one after the other whose data becomes known evenly over `seconds` of computing: what remains when computing
// has ended. That is max(0, all - last - (1 - 1 / calls) seconds) + last: all but the last can hide, from when the
// first is known. all: of the calls together, seconds; last: of the last of them.
double exposed_seconds(double calls, double all, double last, double seconds);

// sqrt(total x bandwidth x overhead), in bytes: larger, and the last bucket is waited for longer; smaller, and there
// are more calls. Exact where computing takes as long as the bytes do. bandwidth: bytes a second of the vector, that is
// bus bandwidth over the bus factor; overhead: seconds of a call without bytes.
double best_bucket_bytes(double total_bytes, double bandwidth, double overhead);

// The smallest batch of a tensor group at which the exchange hides, at most 9e15; 1 where there is none.
std::int64_t least_batch(const SharedStep& step, const Machine& machine, std::optional<double> bucket_bytes = {});

}  // namespace strobe::lm
