// Implements StagedEngine with two slots of pinned memory. The engine processes chunk i in one slot while chunk i + 1
// is copied from the GPU to the other.
#include "comm/staging.h"

#include <algorithm>
#include <array>

#include "core/divide.h"
#include "device/gpu_buffer.h"
#include "device/gpu_stream.h"

namespace strobe::comm {

struct StagedEngine::Stage {
  struct Slot {
    explicit Slot(std::size_t bytes) : in(bytes), out(bytes) {}
    PinnedBuffer in, out;
    GpuEvent loaded;
  };

  explicit Stage(std::int64_t bytes)
      : slots{Slot(static_cast<std::size_t>(bytes)), Slot(static_cast<std::size_t>(bytes))} {}

  void copy(const Elements& to, const Elements& from) const {
    stream.copy(to.data, from.data, static_cast<std::size_t>(from.bytes()));
  }

  // Processes chunks 0 to chunks - 1. load(i, slot) and store(i, slot) enqueue copies on the stream; work(i, slot) runs
  // the engine on the slot.
  template <class Load, class Work, class Store>
  void pipeline(std::int64_t chunks, const Stopped& stopped, Load load, Work work, Store store) {
    const auto begin = [&](std::int64_t i) {
      if (i >= chunks) return;
      Slot& slot = slots[static_cast<std::size_t>(i % 2)];
      load(i, slot);
      slot.loaded.record(stream);
    };
    begin(0);
    begin(1);
    for (std::int64_t i = 0; i < chunks && !stopped(); ++i) {
      Slot& slot = slots[static_cast<std::size_t>(i % 2)];
      slot.loaded.synchronize();
      work(i, slot);
      store(i, slot);
      begin(i + 2);  // the stream runs this load after the store from the same slot
    }
    stream.synchronize();
  }

  GpuStream stream;
  std::array<Slot, 2> slots;
};

StagedEngine::StagedEngine(std::unique_ptr<Engine> host, const World& world, std::int64_t chunk_bytes)
    : host_(std::move(host)), rank_(world.rank), size_(world.size), chunk_bytes_(chunk_bytes) {}

StagedEngine::~StagedEngine() = default;

void StagedEngine::run(const Collective& collective, const Stopped& stopped) {
  if (collective.out.memory == Memory::host) return host_->run(collective, stopped);
  if (!stage_) stage_ = std::make_unique<Stage>(chunk_bytes_);
  if (collective.after) stage_->stream.wait_for(*collective.after);
  const bool whole = collective.kind == Kind::broadcast || collective.kind == Kind::all_reduce;
  whole ? run_whole(collective, stopped) : run_shares(collective, stopped);
}

void StagedEngine::run_whole(const Collective& collective, const Stopped& stopped) {
  const Elements& out = collective.out;
  const Elements& in = collective.kind == Kind::broadcast ? out : collective.in;
  const std::int64_t most = chunk_bytes_ / size_of(out.element);
  const auto count = [&](std::int64_t i) { return std::min(most, out.count - i * most); };
  const auto slot_part = [&](std::int64_t i, const PinnedBuffer& memory) {
    return Elements{memory.as<char>(), count(i), out.element};
  };
  stage_->pipeline(
      ceil_div(out.count, most), stopped,
      [&](std::int64_t i, Stage::Slot& slot) { stage_->copy(slot_part(i, slot.in), in.part(i * most, count(i))); },
      [&](std::int64_t i, Stage::Slot& slot) {
        Collective chunk = collective;
        chunk.after = nullptr;
        chunk.in = chunk.out = slot_part(i, slot.in);
        host_->run(chunk, stopped);
      },
      [&](std::int64_t i, Stage::Slot& slot) { stage_->copy(out.part(i * most, count(i)), slot_part(i, slot.in)); });
}

// Splits a reduce-scatter or all-gather into chunks. Chunk i has elements [i * columns, (i + 1) * columns) of every
// rank's share, so share_of() on the chunk returns each rank's part. The parts have equal sizes, except that they may
// differ by one element in the last chunk.
void StagedEngine::run_shares(const Collective& collective, const Stopped& stopped) {
  const bool scatters = collective.kind == Kind::reduce_scatter;
  const Elements& whole = scatters ? collective.in : collective.out;
  const Elements& own = scatters ? collective.out : collective.in;
  const std::int64_t columns = std::max<std::int64_t>(1, chunk_bytes_ / size_of(whole.element) / size_);
  const auto count_of = [&](std::int64_t i, int rank) {
    return std::clamp<std::int64_t>(share_of(whole.count, rank, size_).count - i * columns, 0, columns);
  };
  const auto total = [&](std::int64_t i) {
    std::int64_t sum = 0;
    for (int rank = 0; rank < size_; ++rank) sum += count_of(i, rank);
    return sum;
  };
  // Copies the elements of chunk i from the whole vector on the GPU to a slot, or back, with one copy per rank.
  const auto copy_whole = [&](std::int64_t i, const PinnedBuffer& memory, bool to_slot) {
    std::int64_t first = 0;
    for (int rank = 0; rank < size_; ++rank) {
      const std::int64_t count = count_of(i, rank);
      const Elements on_gpu = whole.part(share_of(whole.count, rank, size_).first + i * columns, count);
      const Elements in_slot = Elements{memory.as<char>(), total(i), whole.element}.part(first, count);
      stage_->copy(to_slot ? in_slot : on_gpu, to_slot ? on_gpu : in_slot);
      first += count;
    }
  };
  const auto own_part = [&](std::int64_t i) { return own.part(i * columns, count_of(i, rank_)); };
  const auto own_slot = [&](std::int64_t i, const PinnedBuffer& memory) {
    return Elements{memory.as<char>(), count_of(i, rank_), whole.element};
  };
  const auto whole_slot = [&](std::int64_t i, const PinnedBuffer& memory) {
    return Elements{memory.as<char>(), total(i), whole.element};
  };
  const std::int64_t largest = share_of(whole.count, 0, size_).count;
  stage_->pipeline(
      ceil_div(largest, columns), stopped,
      [&](std::int64_t i, Stage::Slot& slot) {
        scatters ? copy_whole(i, slot.in, true) : stage_->copy(own_slot(i, slot.in), own_part(i));
      },
      [&](std::int64_t i, Stage::Slot& slot) {
        Collective chunk{.kind = collective.kind,
                         .in = scatters ? whole_slot(i, slot.in) : own_slot(i, slot.in),
                         .out = scatters ? own_slot(i, slot.out) : whole_slot(i, slot.out)};
        host_->run(chunk, stopped);
      },
      [&](std::int64_t i, Stage::Slot& slot) {
        scatters ? stage_->copy(own_part(i), own_slot(i, slot.out)) : copy_whole(i, slot.out, false);
      });
}

}  // namespace strobe::comm
