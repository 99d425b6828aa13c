// Ring all-reduce and reduce-scatter on point-to-point MPI messages. Messages are split into chunks: one chunk is
// summed while the next is in flight. mpi_engine.cpp uses it.
#pragma once

#include <mpi.h>

#include "comm/engine.h"
#include "device/host/allocator.h"

namespace strobe::comm {

class Ring {
 public:
  Ring(int rank, int size);

  // Runs a reduce-scatter and an all-gather. `out` may be `in`.
  void all_reduce(const Elements& in, const Elements& out, const Stopped& stopped);
  void reduce_scatter(const Elements& in, const Elements& out, const Stopped& stopped);

 private:
  struct RingStep;  // one step of the ring
  template <class Place>
  bool reduce(const Elements& in, Place place, const Stopped& stopped);
  bool gather(const Elements& out, const Stopped& stopped);
  bool exchange(const RingStep& step, const Stopped& stopped);
  void* scratch(Buffer& buffer, std::int64_t bytes);

  int rank_, size_;
  Buffer arrived_, partial_[2];  // received chunks, partial sums; reused by all calls
};

// Polls `count` requests until all are complete. Returns false if `stopped` returns true first; some
// requests may then be pending.
bool drive(MPI_Request* requests, int count, const Stopped& stopped);

void check_mpi(int status, const char* call);
MPI_Datatype mpi_type(Element element);

}  // namespace strobe::comm
