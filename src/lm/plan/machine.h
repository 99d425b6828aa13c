// The machine that a plan is for: rates of a device and of its links, and what a collective costs on them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "comm/collective.h"
#include "lm/models/choices.h"
#include "lm/plan/mesh.h"

namespace strobe::lm {

struct Link {
  double bandwidth = 0;  // bytes a second that a device sends while it receives as many: bus bandwidth
  double latency = 0;    // seconds of one round of messages, whatever is in them
};

struct Machine {
  double flop_rate = 0;         // FLOP/s of a device that a step's products really reach
  double memory_bandwidth = 0;  // bytes read plus bytes written a second
  double memory_bytes = 0;      // of a device; 0: not known
  std::int64_t node = 0;        // devices of a node; 0: all are in one
  Link inside{}, between{};     // nodes; between: each device's own part of its node's network
};

// A machine by its maker's figures: no measurement, and what no program reaches. Latencies are no maker's; they are
// taken to be 5 us in a node and 10 us between nodes.
struct KnownMachine {
  const char* name;
  double fp32, tf32, half;  // FLOP/s of dense products; half: bf16 and fp16
  Machine machine;          // but for flop_rate

  double peak(Precision precision) const;
};

std::span<const KnownMachine> known_machines();

// --- collectives -----------------------------------------------------------------------------------------------------

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
