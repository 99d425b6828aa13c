// Implements Ring. In step k of the reduce-scatter, rank r sends the partial sum of share r - k - 1 to rank r + 1. It
// receives the partial sum of share r - k - 2 from rank r - 1 and adds its own data. Indices of ranks and shares are
// modulo size. After size - 1 steps rank r has the sum of share r. Each sum runs in a fixed rank order, so results are
// bitwise reproducible.
#include "comm/mpi/ring.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "comm/collective.h"
#include "core/divide.h"

namespace strobe::comm {
namespace {

constexpr std::int64_t kChunkBytes = 1 << 22;  // bytes per chunk
constexpr int kAhead = 2;                      // chunks in flight per direction
constexpr int kTag = 1;

}  // namespace

// One step of the ring: sends `sent` to the next rank, and receives arrives.count elements from the previous rank.
struct Ring::RingStep {
  Elements sent;
  Elements own;      // added to the received data; count 0: data are received directly into `arrives`
  Elements arrives;  // destination of the sum
};

Ring::Ring(int rank, int size) : rank_(rank), size_(size) {}

void* Ring::scratch(Buffer& buffer, std::int64_t bytes) {
  if (buffer.bytes() < static_cast<std::size_t>(bytes)) buffer = Buffer(static_cast<std::size_t>(bytes));
  return buffer.data();
}

bool Ring::exchange(const RingStep& step, const Stopped& stopped) {
  const Element element = step.sent.element;
  const std::int64_t chunk = kChunkBytes / size_of(element);
  const bool adds = step.own.count > 0;
  const int next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_;
  const std::int64_t out_chunks = ceil_div(step.sent.count, chunk);
  const std::int64_t in_chunks = ceil_div(step.arrives.count, chunk);
  const Elements slots{adds ? scratch(arrived_, kAhead * kChunkBytes) : nullptr, kAhead * chunk, element};
  const auto part = [&](const Elements& of, std::int64_t i) {
    return of.part(i * chunk, std::min(chunk, of.count - i * chunk));
  };
  const auto target = [&](std::int64_t i) {
    const Elements buffer = part(step.arrives, i);
    return adds ? slots.part(i % kAhead * chunk, buffer.count) : buffer;
  };
  std::array<MPI_Request, kAhead> sends, receives;
  sends.fill(MPI_REQUEST_NULL);
  receives.fill(MPI_REQUEST_NULL);
  const auto send = [&](std::int64_t i) {
    if (i >= out_chunks) return;
    const Elements one = part(step.sent, i);
    check_mpi(MPI_Isend(one.data, static_cast<int>(one.count), mpi_type(element), next, kTag, MPI_COMM_WORLD,
                        &sends[static_cast<std::size_t>(i % kAhead)]),
              "MPI_Isend");
  };
  const auto receive = [&](std::int64_t i) {
    if (i >= in_chunks) return;
    const Elements one = target(i);
    check_mpi(MPI_Irecv(one.data, static_cast<int>(one.count), mpi_type(element), before, kTag, MPI_COMM_WORLD,
                        &receives[static_cast<std::size_t>(i % kAhead)]),
              "MPI_Irecv");
  };
  for (int i = 0; i < kAhead; ++i) {
    receive(i);
    send(i);
  }
  for (std::int64_t i = 0; i < std::max(out_chunks, in_chunks); ++i) {
    const auto slot = static_cast<std::size_t>(i % kAhead);
    if (!drive(&receives[slot], 1, stopped)) return false;
    if (adds && i < in_chunks)
      add(target(i).data, part(step.own, i).data, part(step.arrives, i).data, part(step.arrives, i).count, element);
    receive(i + kAhead);
    if (!drive(&sends[slot], 1, stopped)) return false;
    send(i + kAhead);
  }
  return true;
}

// buffer_of(share) returns the buffer for the partial sum of a share.
template <class BufferOf>
bool Ring::reduce(const Elements& in, BufferOf buffer_of, const Stopped& stopped) {
  const auto share_at = [&](int index) { return (index % size_ + size_) % size_; };
  const auto own_part = [&](int index) {
    const Share share = share_of(in.count, index, size_);
    return in.part(share.first, share.count);
  };
  if (size_ == 1 && in.data != buffer_of(0).data) {  // no other rank
    std::memcpy(buffer_of(0).data, in.data, static_cast<std::size_t>(in.bytes()));
  }
  for (int step = 0; step + 1 < size_; ++step) {
    const int out = share_at(rank_ - step - 1), arriving = share_at(rank_ - step - 2);
    if (!exchange({.sent = step == 0 ? own_part(out) : buffer_of(out),
                   .own = own_part(arriving),
                   .arrives = buffer_of(arriving)},
                  stopped))
      return false;
  }
  return true;
}

bool Ring::gather(const Elements& out, const Stopped& stopped) {
  const auto part = [&](int index) {
    const Share share = share_of(out.count, (index % size_ + size_) % size_, size_);
    return out.part(share.first, share.count);
  };
  for (int step = 0; step + 1 < size_; ++step) {
    if (!exchange({.sent = part(rank_ - step), .own = {}, .arrives = part(rank_ - step - 1)}, stopped)) return false;
  }
  return true;
}

void Ring::all_reduce(const Elements& in, const Elements& out, const Stopped& stopped) {
  const auto buffer_of = [&](int index) {
    const Share share = share_of(out.count, index, size_);
    return out.part(share.first, share.count);
  };
  if (reduce(in, buffer_of, stopped)) gather(out, stopped);
}

void Ring::reduce_scatter(const Elements& in, const Elements& out, const Stopped& stopped) {
  const auto buffer_of = [&](int index) {
    if (index == rank_) return out;
    const std::int64_t count = share_of(in.count, index, size_).count;
    return Elements{scratch(partial_[index % 2], (count + 1) * size_of(in.element)), count, in.element};
  };
  reduce(in, buffer_of, stopped);
}

}  // namespace strobe::comm
