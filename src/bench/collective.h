// Checks the result of one collective on all ranks of a communicator, then times it. All ranks of `strobe comm` call
// this.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "measure/stopping_rule.h"
#include "results/schema.h"

namespace strobe::bench {

struct CollectiveCase {
  comm::Kind kind = comm::Kind::all_reduce;
  std::int64_t bytes = 0;  // fp32 bytes of the whole vector, over all ranks
  comm::Memory memory = comm::Memory::host;

  std::int64_t elements() const { return bytes / 4; }
};

enum class Plain { measured, left_out };  // measured: also times MPI_Allreduce, interleaved with Strobe's call

struct CollectiveResult {
  CollectiveCase one;
  std::string status = "ok";  // "wrong", "refused"
  std::string reason;
  std::int64_t checked = 0, wrong = 0;       // compared and wrong values, over all ranks
  std::vector<std::vector<double>> seconds;  // [rank][sample]
  std::vector<std::vector<double>> plain;    // likewise for MPI_Allreduce
  Stop stop = Stop::not_yet;
};

// Returns a message if this host has too little free memory for the case on `ranks` ranks; empty if it fits.
std::string memory_shortage(const CollectiveCase& one, int ranks);

// Measures a collective. Status, check and times are the same on every rank. Throws the communicator's errors.
CollectiveResult measure_collective(comm::Communicator& communicator, const CollectiveCase& one,
                                    const StoppingRule& rule, Plain plain);

// Returns the slowest rank's time of each sample, because a collective ends when all ranks have the result.
std::vector<double> slowest(const std::vector<std::vector<double>>& seconds);

struct CollectiveRow {
  const CollectiveResult& result;
  const comm::Communicator& communicator;
};

// The rows of `strobe comm`, as JSON and as a table.
const RowType<CollectiveRow>& collective_rows();

}  // namespace strobe::bench
