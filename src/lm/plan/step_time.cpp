#include "lm/plan/step_time.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace strobe::lm {

namespace {

using comm::Kind;

constexpr double kSmallestBucket = 1e6;
constexpr double kMostBatch = 9e15;  // whole numbers are exact up to there

// One call of the exchange in backward, of a vector of so many bytes of fp32 gradients.
Cost gradient_call(const SharedStep& step, const Machine& machine, double bytes) {
  const Mesh& mesh = step.mesh;
  if (step.sharding <= Sharding::optimizer) {
    return collective_cost(machine, Kind::all_reduce, bytes, mesh.batch_group());
  }
  return collective_cost(machine, Kind::reduce_scatter, bytes, mesh.shard_group()) +
         collective_cost(machine, Kind::all_reduce, bytes / static_cast<double>(mesh.shard), mesh.data_group());
}

// Bytes of fp32 gradients of a device.
double gradient_bytes(const SharedStep& step) {
  return sizeof(float) * static_cast<double>(count_of(parameters_of_a_device(step.one.shape, step.mesh.tensor)));
}

// Of the gradient that backward makes last. No bucket cuts a tensor, so the last call takes as many at least.
double embedding_bytes(const SharedStep& step) {
  return sizeof(float) * static_cast<double>(parameters_of_a_device(step.one.shape, step.mesh.tensor).front().count());
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

double bucket_bytes_of(const SharedStep& step, const Machine& machine, std::optional<double> wanted) {
  if (step.mesh.batches() == 1) return 0;
  const double total = gradient_bytes(step);
  if (step.sharding == Sharding::weights) return total / static_cast<double>(step.one.shape.layers + 2);
  const auto call = [&](double bytes) { return gradient_call(step, machine, bytes); };
  return total / std::ceil(total / std::min(wanted.value_or(bucket_of(call, total)), total));
}

StepTime step_time(const SharedStep& step, const Machine& machine, std::optional<double> bucket_bytes) {
  const BenchCase& one = step.one;
  const Mesh& mesh = step.mesh;
  const Sharding sharding = step.sharding;
  const auto element = static_cast<double>(size_of(dtype_of(one.precision)));
  const double total = gradient_bytes(step), count = total / sizeof(float);
  const auto layers = static_cast<double>(one.shape.layers);
  Cost sent;
  StepTime time;

  BenchCase all = one;
  all.pass = BenchPass::forward;
  time.forward = flops_of(all) / static_cast<double>(mesh.tensor) / machine.flop_rate;
  time.backward = 2 * time.forward;
  const double updated = sharding >= Sharding::optimizer ? count / static_cast<double>(mesh.shard) : count;
  time.update = updated * update_bytes(one.precision) / machine.memory_bandwidth;

  // After attention and after the feed-forward layer of each block, forward and backward, and at both ends.
  const auto residual = static_cast<double>(one.batch * one.shape.context * one.shape.d_model) * element;
  const Cost activations =
      2 * (2 * layers + 1) * collective_cost(machine, Kind::all_reduce, residual, mesh.tensor_group());
  time.tensor = activations.seconds;
  sent += activations;

  const auto weights = [&](double bytes) {
    return collective_cost(machine, Kind::all_gather, bytes, mesh.shard_group());
  };
  time.call_bytes = bucket_bytes_of(step, machine, bucket_bytes);
  time.calls = time.call_bytes > 0 ? std::round(total / time.call_bytes) : 0;
  const Cost call = gradient_call(step, machine, time.call_bytes);
  if (time.calls > 0 && sharding == Sharding::weights) {
    const Cost gathered = weights(element * count / time.calls), both = gathered + call;
    time.forward_exchange = time.calls * gathered.seconds;
    time.backward_exchange = time.calls * both.seconds;
    time.exposed = exposed_seconds(time.calls, time.forward_exchange, gathered.seconds, time.forward) +
                   exposed_seconds(time.calls, time.backward_exchange, both.seconds, time.backward);
    sent += time.calls * (gathered + both);
  } else if (time.calls > 0) {
    time.backward_exchange = time.calls * call.seconds;
    const double last = gradient_call(step, machine, std::max(time.call_bytes, embedding_bytes(step))).seconds;
    time.exposed = exposed_seconds(time.calls, time.backward_exchange, last, time.backward);
    sent += time.calls * call;
  }
  if (sharding == Sharding::optimizer || sharding == Sharding::gradients) {
    const Cost gathered = time.calls * weights(time.call_bytes);
    time.gather = gathered.seconds;
    sent += gathered;
  }
  time.inside = sent.inside;
  time.between = sent.between;
  return time;
}

std::int64_t least_batch(const SharedStep& step, const Machine& machine, std::optional<double> bucket_bytes) {
  SharedStep single = step;
  single.one.batch = 1;  // computing grows with the batch, what can hide does not
  const StepTime time = step_time(single, machine, bucket_bytes);
  const double least = std::max(time.forward_exchange / time.forward, time.backward_exchange / time.backward);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(std::ceil(least), kMostBatch)));
}

}  // namespace strobe::lm
