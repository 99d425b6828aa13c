// Machine describes the devices and links that `strobe plan` assumes. The functions compute the costs of
// collectives and messages.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "comm/collective.h"
#include "lm/models/choices.h"
#include "lm/plan/mesh.h"

namespace strobe::lm {

struct Link {
  double bandwidth = 0;  // bus bandwidth in bytes per second, sending and receiving at the same time
  double latency = 0;    // seconds per round of messages
};

struct Machine {
  double flop_rate = 0;         // FLOP/s that the matmuls of a step achieve on a device
  double memory_bandwidth = 0;  // bytes read plus bytes written per second
  double memory_bytes = 0;      // per device; 0: unknown
  std::int64_t node = 0;        // devices per node; 0: all devices are in one node
  Link inside{}, between{};     // within a node; between nodes, per device
};

// A machine with the peak rates that its vendor publishes; no program reaches them. Vendors publish no latencies, so 5
// us within a node and 10 us between nodes are assumed.
struct KnownMachine {
  const char* name;
  double fp32, tf32, half;  // FLOP/s of dense matmuls; half: bf16 and fp16
  Machine machine;          // without flop_rate

  double peak(Precision precision) const;
};

std::span<const KnownMachine> known_machines();

// --- collectives -----------------------------------------------------------------------------------------------------

struct Cost {
  double seconds = 0;
  double inside = 0, between = 0;  // bytes that a device sends within its node and to other nodes

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

// Returns the rounds of messages: log2(size), rounded up; twice that for an all-reduce.
double rounds_of(comm::Kind kind, std::int64_t size);

// Returns the cost of a collective on a vector of `bytes`. On one kind of link the time is rounds x latency +
// bus_factor x bytes / bandwidth. If a group spans nodes, the devices of each node first split the vector. Then each
// device exchanges its part with the corresponding devices of other nodes, all devices concurrently. A group of one
// costs nothing.
Cost collective_cost(const Machine& machine, comm::Kind kind, double bytes, const Group& group);

// Returns the cost of sending `bytes` to the next device of the group: latency + bytes / bandwidth. Uses the link
// between nodes unless the whole group is in one node. A group of one costs nothing.
Cost send_cost(const Machine& machine, double bytes, const Group& group);

struct LinkSample {
  comm::Kind kind = comm::Kind::all_reduce;
  std::int64_t ranks = 2;
  double bytes = 0, seconds = 0;
};

// Fits latency and bandwidth to the samples with the formula of collective_cost(). Minimises the squares of relative
// errors, so small messages count as much as large ones. A latency below 0 becomes 0. Throws Error(invalid_argument) if
// all samples have the same size, or if times do not grow with the size.
Link fit_link(std::span<const LinkSample> samples);

}  // namespace strobe::lm
