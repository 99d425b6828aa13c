// Defines known machines, computes costs of collectives, and fits links to measurements.
#include "lm/plan/machine.h"

#include <algorithm>
#include <cmath>

#include "core/divide.h"
#include "core/fail.h"
#include "core/units.h"

namespace strobe::lm {

namespace {

constexpr Link link(double gigabytes, double microseconds) { return {gigabytes * 1e9, microseconds * 1e-6}; }

// Figures of vendor data sheets: dense FLOP/s, HBM bandwidth, NVLink in one direction, one InfiniBand port per GPU.
constexpr KnownMachine kMachines[] = {
    {"a100",
     19.5e12,
     156e12,
     312e12,
     {.memory_bandwidth = 2.04e12,
      .memory_bytes = 80 * kGiB,
      .node = 8,
      .inside = link(300, 5),
      .between = link(25, 10)}},
    {"h100",
     67e12,
     495e12,
     989e12,
     {.memory_bandwidth = 3.35e12,
      .memory_bytes = 80 * kGiB,
      .node = 8,
      .inside = link(450, 5),
      .between = link(50, 10)}},
    {"h200",
     67e12,
     495e12,
     989e12,
     {.memory_bandwidth = 4.8e12, .memory_bytes = 141e9, .node = 8, .inside = link(450, 5), .between = link(50, 10)}},
};

}  // namespace

double KnownMachine::peak(Precision precision) const {
  switch (precision) {
    case Precision::fp32: return fp32;
    case Precision::tf32: return tf32;
    case Precision::bf16:
    case Precision::fp16: return half;
  }
  return fp32;
}

std::span<const KnownMachine> known_machines() { return kMachines; }

// --- collectives -----------------------------------------------------------------------------------------------------

namespace {

Cost on_one_level(const Link& link, comm::Kind kind, double bytes, std::int64_t size) {
  if (size <= 1) return {};
  const double sent = comm::bus_factor(kind, size) * bytes;
  return {.seconds = rounds_of(kind, size) * link.latency + sent / link.bandwidth, .inside = sent};
}

}  // namespace

double rounds_of(comm::Kind kind, std::int64_t size) {
  double rounds = 0;
  for (std::int64_t reached = 1; reached < size; reached *= 2) ++rounds;
  return kind == comm::Kind::all_reduce ? 2 * rounds : rounds;
}

Cost collective_cost(const Machine& machine, comm::Kind kind, double bytes, const Group& group) {
  const std::int64_t per_node = machine.node == 0 ? group.size : machine.node / group.stride;  // members of the group
  const std::int64_t near = std::clamp<std::int64_t>(per_node, 1, group.size), nodes = ceil_div(group.size, near);
  Cost far = on_one_level(machine.between, kind, bytes / static_cast<double>(near), nodes);
  std::swap(far.inside, far.between);
  return on_one_level(machine.inside, kind, bytes, near) + far;
}

Cost send_cost(const Machine& machine, double bytes, const Group& group) {
  if (group.size <= 1) return {};
  if (machine.node == 0 || group.size * group.stride <= machine.node) {
    return {.seconds = machine.inside.latency + bytes / machine.inside.bandwidth, .inside = bytes};
  }
  return {.seconds = machine.between.latency + bytes / machine.between.bandwidth, .between = bytes};
}

Link fit_link(std::span<const LinkSample> samples) {
  // Least-squares fit of u latency + v / bandwidth = 1 over all samples.
  double uu = 0, uv = 0, vv = 0, u_sum = 0, v_sum = 0;
  double least = 0, most = 0;
  for (const LinkSample& sample : samples) {
    const double u = rounds_of(sample.kind, sample.ranks) / sample.seconds;
    const double v = comm::bus_factor(sample.kind, sample.ranks) * sample.bytes / sample.seconds;
    uu += u * u;
    uv += u * v;
    vv += v * v;
    u_sum += u;
    v_sum += v;
    least = most == 0 ? sample.bytes : std::min(least, sample.bytes);
    most = std::max(most, sample.bytes);
  }
  if (!(least < most)) {
    fail(ErrorCode::invalid_argument,
         "latency and bandwidth need times of at least two sizes; there are {} times, all of {} bytes", samples.size(),
         most);
  }
  const double determinant = uu * vv - uv * uv;
  double latency = (u_sum * vv - v_sum * uv) / determinant, per_byte = (v_sum * uu - u_sum * uv) / determinant;
  if (!(latency > 0)) {
    latency = 0;
    per_byte = v_sum / vv;
  }
  if (!(per_byte > 0)) {
    fail(ErrorCode::invalid_argument,
         "the times of {} to {} bytes do not grow with the size, so they give no bandwidth", least, most);
  }
  return {.bandwidth = 1 / per_byte, .latency = latency};
}

}  // namespace strobe::lm
