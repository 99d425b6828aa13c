// Reductions around a ring of ranks, on MPI's messages: large vectors in pieces, one of
// which is summed while the next is on its way. mpi_engine.cpp calls.
#pragma once

#include <mpi.h>

#include "comm/engine.h"
#include "device/host/allocator.h"

namespace strobe::comm {

class Ring {
 public:
  Ring(int rank, int size);

  // Every rank's share of the sums in `out` (where in may be out), then all shares to all.
  void all_reduce(const Elements& in, const Elements& out, const Stopped& stopped);
  void reduce_scatter(const Elements& in, const Elements& out, const Stopped& stopped);

 private:
  struct Exchange;  // one step: what goes to the next rank and what comes from the one before
  template <class Place>
  bool reduce(const Elements& in, Place place, const Stopped& stopped);
  bool gather(const Elements& out, const Stopped& stopped);
  bool exchange(const Exchange& step, const Stopped& stopped);
  void* scratch(Buffer& buffer, std::int64_t bytes);

  int rank_, size_;
  Buffer arrived_, partial_[2];  // kept from call to call
};

// Tests until all are done; false where it was given up. Requests are MPI's own until then.
bool drive(MPI_Request* requests, int count, const Stopped& stopped);

void check_mpi(int status, const char* call);
MPI_Datatype mpi_type(Element element);

}  // namespace strobe::comm
