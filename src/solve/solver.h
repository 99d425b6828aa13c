// What computes the answers of a problem file into an answer file, on the CPU or a GPU. solve.cpp calls one of them.
#pragma once

#include <string>

#include "solve/problem_file.h"
#include "strobe/attention.h"

namespace strobe::solve {

// Seconds of each stage, summed over the chunks. Stages run at the same time, so that they add up to more than `total`.
struct StageTimes {
  double read = 0, to_device = 0, kernel = 0, from_device = 0, write = 0;
  double busy = 0;     // in which the device computed or copied: all but the files
  double context = 0;  // the GPU's context, streams and kernel code, before all else and not part of `total`
  double buffers = 0;  // memory for what is on its way
  double total = 0;    // buffers, and from the first byte read to the last one written; fsync not included
};

struct Solver {
  const ProblemFile& problem;
  AnswerFile& answer;
  std::string kernel;  // empty: the library chooses
};

StageTimes solve_on_cpu(const Solver& solver);
StageTimes solve_on_cuda(const Solver& solver);

// Batches of one problem whose Q, K and V lie as in the file, from `inputs` on, and whose O goes to `outputs`, back to
// back. Null pointers are fine for workspace_bytes().
Attention attention_of(const ProblemSize& size, std::int64_t batches, const float* inputs);
ForwardOutputs outputs_of(const ProblemSize& size, std::int64_t batches, float* outputs);

// Bytes of workspace for chunks of so many batches, of which the last may have fewer: that one may need more, where the
// kernel splits what few batches do not.
std::size_t chunk_workspace(const ProblemSize& size, std::int64_t batches, const Execution& execution);

}  // namespace strobe::solve
