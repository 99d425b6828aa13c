// MPI as a program without Strobe would call it: what `strobe comm` holds the communicator against.
#pragma once

#include <cstdint>
#include <string>

namespace strobe::comm {

// MPI_Allreduce on the world of the mpi engine, while nothing else is under way. Fewer than 2^31 elements.
void plain_mpi_all_reduce(const float* in, float* out, std::int64_t count);

std::string mpi_version();  // "Open MPI v4.1.4"; "none" where it is not built in

}  // namespace strobe::comm
