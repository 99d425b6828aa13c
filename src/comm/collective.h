// Types that describe a collective: elements in memory, the share of each rank, and the call itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace strobe {
class GpuEvent;
}

namespace strobe::comm {

enum class Element { byte, fp32, fp64, int64 };  // `byte` is copied, never summed

constexpr std::int64_t size_of(Element element) {
  switch (element) {
    case Element::byte: return 1;
    case Element::fp32: return 4;
    case Element::fp64:
    case Element::int64: return 8;
  }
  return 1;
}

const char* name_of(Element element);

enum class Memory { host, gpu };

// Non-owning view of contiguous elements in host or GPU memory.
struct Elements {
  void* data = nullptr;
  std::int64_t count = 0;
  Element element = Element::byte;
  Memory memory = Memory::host;

  std::int64_t bytes() const { return count * size_of(element); }
  Elements part(std::int64_t first, std::int64_t part_count) const {
    return {static_cast<char*>(data) + first * size_of(element), part_count, element, memory};
  }
};

// Views of host memory. A collective does not write to its `in`, although `data` is not const.
inline Elements elements(std::span<float> values) {
  return {values.data(), static_cast<std::int64_t>(values.size()), Element::fp32};
}
inline Elements elements(std::span<double> values) {
  return {values.data(), static_cast<std::int64_t>(values.size()), Element::fp64};
}
inline Elements elements(std::span<std::int64_t> values) {
  return {values.data(), static_cast<std::int64_t>(values.size()), Element::int64};
}
inline Elements elements(std::span<std::byte> values) {
  return {values.data(), static_cast<std::int64_t>(values.size()), Element::byte};
}

// A rank's shard: the range of elements that the rank holds after an even split of `total` elements. Sizes differ by at
// most one element, and the larger ranges come first.
struct Share {
  std::int64_t first, count;
};
constexpr Share share_of(std::int64_t total, int rank, int size) {
  const std::int64_t least = total / size, larger = total % size;
  return {rank * least + (rank < larger ? rank : larger), least + (rank < larger ? 1 : 0)};
}

// Computes out[i] = a[i] + b[i] on the host. `out` may be `a` or `b`; no other overlap is allowed. Does nothing for
// bytes.
void add(const void* a, const void* b, void* out, std::int64_t count, Element element);

enum class Kind { barrier, broadcast, all_reduce, reduce_scatter, all_gather };

const char* name_of(Kind kind);  // "all-reduce"

// Ratio of bus bandwidth to algorithm bandwidth for n ranks: 2 (n - 1) / n for an all-reduce, (n - 1) / n for
// reduce-scatter and all-gather, 1 for a broadcast or barrier.
double bus_factor(Kind kind, std::int64_t ranks);

// Selects how the other ranks wait in a barrier until rank 0 has entered it.
enum class Waiting {
  polling,  // the engine polls
  asleep,   // blocked on the control connection to rank 0, without using a core
};

struct Collective {
  Kind kind = Kind::barrier;
  Elements in{}, out{};                // broadcast uses only `out`, which the root sends
  int root = 0;                        // broadcast only
  const GpuEvent* after = nullptr;     // GPU memory: `in` is ready after this event; null: ready now
  Waiting waiting = Waiting::polling;  // barrier only

  std::int64_t total() const;  // elements of the whole vector: the larger of in and out
  std::string text() const;    // "all-reduce of 250000 fp32"
};

}  // namespace strobe::comm
