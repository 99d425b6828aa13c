// From the makers' data sheets: dense FLOP/s, HBM, NVLink one way, one InfiniBand port a GPU.
#include "lm/plan/machine.h"

#include "core/units.h"

namespace strobe::lm {

namespace {

constexpr Link link(double gigabytes, double microseconds) { return {gigabytes * 1e9, microseconds * 1e-6}; }

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

}  // namespace strobe::lm
