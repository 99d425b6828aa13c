// Stubs for a build without MPI. Functions that need MPI throw Error(unsupported).
#include "comm/engine.h"
#include "core/fail.h"

namespace strobe::comm {

namespace {
constexpr const char* kNoMpi = "this build has no MPI (install libopenmpi-dev and openmpi-bin, and build again)";
}

const char* why_no_mpi() { return kNoMpi; }

std::unique_ptr<Engine> make_mpi_engine(World&, std::int64_t) { fail(ErrorCode::unsupported, "mpi: {}", kNoMpi); }

void plain_mpi_all_reduce(const float*, float*, std::int64_t) { fail(ErrorCode::unsupported, "mpi: {}", kNoMpi); }

std::string mpi_version() { return "none"; }

}  // namespace strobe::comm
