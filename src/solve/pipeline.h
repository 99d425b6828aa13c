// Three stages at once over the chunks of a file: while chunk c is computed, c + 1 is loaded and c - 1 stored. The
// solvers call.
#pragma once

#include <cstdint>
#include <functional>

namespace strobe::solve {

// Each is called with chunks 0, 1, 2, ... in order: load and store on threads of their own, compute on the caller's.
struct Stages {
  std::function<void(std::int64_t chunk)> load, compute, store;
};

// compute(c) starts after load(c) has returned, store(c) after compute(c), and load(c + in_flight) after store(c): so
// chunk % in_flight tells a place that belongs to the chunk alone. Returns when all is stored. After the first
// exception no stage is called any more, and the exception is thrown from here.
void run_pipeline(std::int64_t chunks, std::int64_t in_flight, const Stages& stages);

}  // namespace strobe::solve
