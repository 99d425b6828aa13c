// What a plan knows of the machines it is for: rates of a device and of its links.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lm/models/precision.h"

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

}  // namespace strobe::lm
