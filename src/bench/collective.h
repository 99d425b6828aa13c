// Times of one collective on the ranks of a communicator, values checked first. `strobe comm` calls, on all ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/json.h"
#include "measure/stopping_rule.h"

namespace strobe::bench {

struct CollectiveCase {
  comm::Kind kind = comm::Kind::all_reduce;
  std::int64_t bytes = 0;  // of fp32 that the ranks have together: the whole vector, of which shares are parts
  comm::Memory memory = comm::Memory::host;

  std::int64_t elements() const { return bytes / 4; }
};

enum class Plain { measured, left_out };  // MPI_Allreduce in turns with ours

struct CollectiveResult {
  CollectiveCase one;
  std::string status = "ok";  // "wrong", "refused"
  std::string reason;
  std::int64_t checked = 0, wrong = 0;       // values, of all ranks
  std::vector<std::vector<double>> seconds;  // [rank][sample]
  std::vector<std::vector<double>> plain;    // likewise, of MPI_Allreduce
  Stop stop = Stop::not_yet;
};

// Why a case is not tried on so many ranks of this host: too little memory is free. Empty: it is.
std::string why_it_does_not_fit(const CollectiveCase& one, int ranks);

// The same on every rank. Throws what the communicator throws.
CollectiveResult measure_collective(comm::Communicator& communicator, const CollectiveCase& one,
                                    const StoppingRule& rule, Plain plain);

// Of each sample the slowest rank's: the collective is over when all have it.
std::vector<double> slowest(const std::vector<std::vector<double>>& seconds);

Json collective_json(const CollectiveResult& result, const comm::Communicator& communicator);

}  // namespace strobe::bench
