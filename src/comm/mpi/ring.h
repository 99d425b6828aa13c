// Ring reductions on MPI messages. Large vectors are split into chunks: one chunk is summed while the next is in
// flight. mpi_engine.cpp uses it.
#pragma once

#include <mpi.h>

#include "comm/engine.h"
#include "device/host/allocator.h"

namespace strobe::comm {

class Ring {
 public:
  Ring(int rank, int size);

  // Reduce-scatter into `out`, which may be `in`, then all-gather.
  void all_reduce(const Elements& in, const Elements& out, const Stopped& stopped);
  void reduce_scatter(const Elements& in, const Elements& out, const Stopped& stopped);

 private:
  struct Exchange;  // one step: sends to the next rank and receives from the previous one
  template <class Place>
  bool reduce(const Elements& in, Place place, const Stopped& stopped);
  bool gather(const Elements& out, const Stopped& stopped);
  bool exchange(const Exchange& step, const Stopped& stopped);
  void* scratch(Buffer& buffer, std::int64_t bytes);

  int rank_, size_;
  Buffer arrived_, partial_[2];  // reused by all calls
};

// Tests until all requests are done; returns false if abandoned. MPI uses the requests until then.
bool drive(MPI_Request* requests, int count, const Stopped& stopped);

void check_mpi(int status, const char* call);
MPI_Datatype mpi_type(Element element);

}  // namespace strobe::comm
