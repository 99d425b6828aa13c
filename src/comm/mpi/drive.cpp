// Helpers of the MPI engine: data types, error checks, and polling of requests.
#include <mpi.h>
#include <sched.h>
#include <time.h>

#include <chrono>

#include "comm/mpi/ring.h"
#include "core/fail.h"

namespace strobe::comm {
namespace {

using Clock = std::chrono::steady_clock;

// Backoff between two tests of a request. Yields the core after each test, and sleeps for 50 us once no test has moved
// data for 2 ms. A test that takes over 5 us is assumed to have moved data.
class Patience {
 public:
  void after_test() {
    const auto now = Clock::now();
    if (now - last_ > std::chrono::microseconds(5)) busy_ = now;
    if (now - busy_ > std::chrono::milliseconds(2)) {
      const timespec nap{.tv_sec = 0, .tv_nsec = 50'000};
      nanosleep(&nap, nullptr);
    } else {
      sched_yield();
    }
    last_ = Clock::now();
  }

 private:
  Clock::time_point last_ = Clock::now(), busy_ = last_;
};

}  // namespace

void check_mpi(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  fail(ErrorCode::runtime, "mpi: {} failed: {}", call, text);
}

MPI_Datatype mpi_type(Element element) {
  switch (element) {
    case Element::byte: return MPI_BYTE;
    case Element::fp32: return MPI_FLOAT;
    case Element::fp64: return MPI_DOUBLE;
    case Element::int64: return MPI_INT64_T;
  }
  return MPI_BYTE;
}

bool drive(MPI_Request* requests, int count, const Stopped& stopped) {
  Patience patience;
  for (int done = 0, tests = 0;; ++tests) {
    check_mpi(MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (done) return true;
    if (stopped()) return false;
    if (tests > 20) patience.after_test();
  }
}

}  // namespace strobe::comm
