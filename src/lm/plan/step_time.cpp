// Predicts the time of a training step on a mesh.
#include "lm/plan/step_time.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>
#include <vector>

#include "core/divide.h"

namespace strobe::lm {

namespace {

using comm::Kind;

constexpr double kSmallestBucket = 1e6;  // bytes
constexpr double kMostBatch = 9e15;      // doubles represent integers exactly up to here

// Returns the cost of exchanging `bytes` of fp32 gradients in one call.
Cost gradient_call(const SharedStep& step, const Machine& machine, double bytes) {
  const Mesh& mesh = step.mesh;
  if (step.sharding <= Sharding::optimizer) {
    return collective_cost(machine, Kind::all_reduce, bytes, mesh.batch_group());
  }
  return collective_cost(machine, Kind::reduce_scatter, bytes, mesh.shard_group()) +
         collective_cost(machine, Kind::all_reduce, bytes / static_cast<double>(mesh.shard), mesh.data_group());
}

double gradient_bytes(const StageParameters& parameters) {
  return sizeof(float) * static_cast<double>(parameters.count());
}

double bucket_of(const std::function<Cost(double)>& call, double total) {
  const double overhead = call(0).seconds, rest = call(total).seconds - overhead;
  const double best = rest > 0 ? best_bucket_bytes(total, total / rest, overhead) : total;
  return std::clamp(best, std::min(kSmallestBucket, total), total);
}

}  // namespace

double update_bytes(Precision precision) {
  const DType dtype = dtype_of(precision);
  return 7 * sizeof(float) + (dtype == DType::fp32 ? 0 : static_cast<double>(size_of(dtype)));
}

double exposed_seconds(double calls, double all, double last, double seconds) {
  return std::max(0.0, all - last - (1 - 1 / calls) * seconds) + last;
}

double best_bucket_bytes(double total_bytes, double bandwidth, double overhead) {
  return std::sqrt(total_bytes * bandwidth * overhead);
}

namespace {

double equal_buckets(const SharedStep& step, const StageParameters& parameters, const Machine& machine,
                     std::optional<double> wanted) {
  if (step.mesh.batches() == 1) return 0;
  const double total = gradient_bytes(parameters);
  if (step.sharding == Sharding::weights) return total / static_cast<double>(parameters.units());
  const auto call = [&](double bytes) { return gradient_call(step, machine, bytes); };
  return total / std::ceil(total / std::min(wanted.value_or(bucket_of(call, total)), total));
}

// Seconds of one micro-batch in a stage. `tensor` is the cost of the all-reduces in tensor-parallel groups.
struct MicroBatch {
  double forward = 0, backward = 0;
  Cost tensor;

  double seconds() const { return forward + backward + tensor.seconds; }
};

// Returns the bytes of the residual stream of a micro-batch.
double residual_bytes(const SharedStep& step) {
  const BenchCase& one = step.one;
  return static_cast<double>(one.batch * one.shape.context * one.shape.d_model) /
         static_cast<double>(step.micro_batches) * static_cast<double>(size_of(dtype_of(one.precision)));
}

MicroBatch micro_batch(const SharedStep& step, const Stage& stage, const Machine& machine) {
  MicroBatch one;
  one.forward =
      forward_flops(step, stage) / static_cast<double>(step.micro_batches * step.mesh.tensor) / machine.flop_rate;
  one.backward = 2 * one.forward;
  one.tensor = static_cast<double>(tensor_calls(step, stage)) *
               collective_cost(machine, Kind::all_reduce, residual_bytes(step), step.mesh.tensor_group());
  return one;
}

// Adds the exchange of gradients and sharded parameters: its seconds to `time`, and the bytes that a device sends to
// `sent`.
void take_exchange(const SharedStep& step, const StageParameters& parameters, const MicroBatch& one,
                   const Machine& machine, StepTime& time, Cost& sent) {
  const auto element = static_cast<double>(size_of(dtype_of(step.one.precision)));
  const auto micro_batches = static_cast<double>(step.micro_batches);
  const auto weights = [&](double bytes) {
    return collective_cost(machine, Kind::all_gather, bytes, step.mesh.shard_group());
  };
  const Cost call = gradient_call(step, machine, time.call_bytes);
  if (step.sharding == Sharding::weights) {  // parameters are gathered for every micro-batch, in forward and backward
    const Cost gathered = weights(element * static_cast<double>(parameters.count()) / time.calls),
               both = gathered + call;
    const double gathers = time.calls * gathered.seconds;
    time.forward_exchange = micro_batches * gathers;
    time.last_exchange = time.calls * both.seconds;
    time.backward_exchange = (micro_batches - 1) * gathers + time.last_exchange;
    time.exposed = micro_batches * exposed_seconds(time.calls, gathers, gathered.seconds, one.forward) +
                   (micro_batches - 1) * exposed_seconds(time.calls, gathers, gathered.seconds, one.backward) +
                   exposed_seconds(time.calls, time.last_exchange, both.seconds, one.backward);
    sent += time.calls * ((2 * micro_batches) * gathered + call);
    return;
  }
  time.backward_exchange = time.last_exchange = time.calls * call.seconds;
  // A bucket contains whole tensors, so the last call has at least the last gradient.
  const double last_bytes = sizeof(float) * static_cast<double>(parameters.last_gradient);
  const double last = gradient_call(step, machine, std::max(time.call_bytes, last_bytes)).seconds;
  time.exposed = exposed_seconds(time.calls, time.last_exchange, last, one.backward);
  sent += time.calls * call;
  if (step.sharding == Sharding::replicated) return;
  const Cost gathered = time.calls * weights(time.call_bytes);
  time.gather = gathered.seconds;
  sent += gathered;
}

// Returns the step time of the devices of `stage`. `slot` is the seconds of a micro-batch in the slowest stage.
StepTime time_of(const SharedStep& step, const Stage& stage, const Machine& machine, double slot,
                 std::optional<double> bucket) {
  const StageParameters parameters = parameters_of(step, stage);
  const MicroBatch one = micro_batch(step, stage, machine);
  const auto micro_batches = static_cast<double>(step.micro_batches), stages = static_cast<double>(step.mesh.pipeline);
  const auto count = static_cast<double>(parameters.count());
  StepTime time;
  time.forward = micro_batches * one.forward;
  time.backward = micro_batches * one.backward;
  time.last_backward = one.backward;
  const double updated = step.sharding >= Sharding::optimizer ? count / static_cast<double>(step.mesh.shard) : count;
  time.update = updated * update_bytes(step.one.precision) / machine.memory_bandwidth;
  Cost sent = micro_batches * one.tensor;
  time.tensor = sent.seconds;
  if (step.mesh.pipeline > 1) {
    time.bubble = (micro_batches + stages - 1) * slot - micro_batches * one.seconds();
    const Cost send = send_cost(machine, residual_bytes(step), step.mesh.pipeline_group());
    time.pipeline = 2 * (micro_batches + stages - 2) * send.seconds;
    const bool inner = !stage.embeds && !stage.unembeds;  // sends activations forward and gradients back
    sent += (inner ? 2 : 1) * micro_batches * send;
  }
  time.call_bytes = equal_buckets(step, parameters, machine, bucket);
  time.calls = time.call_bytes > 0 ? std::round(gradient_bytes(parameters) / time.call_bytes) : 0;
  if (time.calls > 0) take_exchange(step, parameters, one, machine, time, sent);
  time.inside = sent.inside;
  time.between = sent.between;
  return time;
}

}  // namespace

double bucket_bytes_of(const SharedStep& step, const Machine& machine, std::optional<double> wanted) {
  double most = 0;
  for (const Stage& stage : stages_of(step)) {
    most = std::max(most, equal_buckets(step, parameters_of(step, stage), machine, wanted));
  }
  return most;
}

StepTime step_time(const SharedStep& step, const Machine& machine, std::optional<double> bucket) {
  const std::vector<Stage> stages = stages_of(step);
  double slot = 0;
  for (const Stage& stage : stages) slot = std::max(slot, micro_batch(step, stage, machine).seconds());
  StepTime longest;
  for (const Stage& stage : stages) {
    const StepTime time = time_of(step, stage, machine, slot, bucket);
    // Ties go to the stage with the longest forward, then to the one that sends the most bytes.
    const auto rank = [](const StepTime& one) { return std::tuple(one.step(), one.forward, one.inside + one.between); };
    if (rank(time) > rank(longest)) longest = time;
  }
  return longest;
}

std::int64_t least_batch(const SharedStep& step, const Machine& machine, std::optional<double> bucket) {
  SharedStep single = step;
  single.one.batch = 1;  // a larger batch takes longer to compute, but not to exchange
  const StepTime time = step_time(single, machine, bucket);
  const double least = std::max(time.forward_exchange / time.forward, time.last_exchange / time.last_backward);
  const double whole = std::ceil(std::max(1.0, std::min(least, kMostBatch)));
  return round_up(static_cast<std::int64_t>(std::min(whole, kMostBatch)), step.micro_batches);
}

}  // namespace strobe::lm
