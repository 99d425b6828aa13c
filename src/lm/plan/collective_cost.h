// What a collective costs on a machine, and a link's figures from measured ones.
#pragma once

#include <cstdint>
#include <span>

#include "comm/collective.h"
#include "lm/plan/machine.h"
#include "lm/plan/mesh.h"

namespace strobe::lm {

struct Cost {
  double seconds = 0;
  double inside = 0, between = 0;  // bytes that a device sends, within its node and to other nodes

  Cost& operator+=(const Cost& other) {
    seconds += other.seconds;
    inside += other.inside;
    between += other.between;
    return *this;
  }
  friend Cost operator+(Cost a, const Cost& b) { return a += b; }
  friend Cost operator*(double times, const Cost& one) {
    return {times * one.seconds, times * one.inside, times * one.between};
  }
};

// Rounds of messages: log2 n, rounded up, for a reduce-scatter and an all-gather; twice that for an all-reduce.
double rounds_of(comm::Kind kind, std::int64_t size);

// Of `bytes` of the whole vector. On one level rounds x latency + bus_factor x bytes / bandwidth. Where a group is
// spread over nodes, its devices of a node first share the vector among themselves, each then exchanges its part with
// its fellows in other nodes, all at once. A group of one costs nothing.
Cost collective_cost(const Machine& machine, comm::Kind kind, double bytes, const Group& group);

// Cost of sending `bytes` to the neighbour in the group: latency + bytes / bandwidth, between nodes unless the whole
// group is in one. A group of one costs nothing.
Cost send_cost(const Machine& machine, double bytes, const Group& group);

struct LinkSample {
  comm::Kind kind = comm::Kind::all_reduce;
  std::int64_t ranks = 2;
  double bytes = 0, seconds = 0;
};

// The latency and bandwidth whose formula above is nearest to the samples: least squares of relative errors, so that a
// small message counts as much as a large one. A latency below 0 becomes 0. Throws Error(invalid_argument) without two
// different sizes, or where times do not grow with bytes.
Link fit_link(std::span<const LinkSample> samples);

}  // namespace strobe::lm
