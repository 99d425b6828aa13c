// Solvers that compute an answer file from a problem file, on the CPU or a GPU. solve.cpp calls one of them.
#pragma once

#include <string>

#include "solve/problem_file.h"
#include "strobe/attention.h"

namespace strobe::solve {

// Seconds of each stage, summed over the chunks. Stages overlap, so their sum exceeds `total`.
struct StageTimes {
  double read = 0, to_device = 0, kernel = 0, from_device = 0, write = 0;
  double busy = 0;     // time in which the device computed or copied: everything except file access
  double context = 0;  // creation of the GPU's context, streams and kernel code, before everything else; excluded from
                       // `total`
  double buffers = 0;  // allocation of the buffers
  double total = 0;    // buffers, and from the first byte read to the last one written; excludes fsync
};

struct Solver {
  const ProblemFile& problem;
  AnswerFile& answer;
  std::string kernel;  // empty: the library chooses
};

StageTimes solve_on_cpu(const Solver& solver);
StageTimes solve_on_cuda(const Solver& solver);

// Describes `batches` batches of one problem as attention with one head. Q, K and V have the layout of the file,
// starting at `inputs`; O is contiguous at `outputs`. Null pointers are valid for workspace_bytes().
Attention attention_of(const ProblemSize& size, std::int64_t batches, const float* inputs);
ForwardOutputs outputs_of(const ProblemSize& size, std::int64_t batches, float* outputs);

// Returns the workspace bytes for chunks of this many batches. The last chunk may have fewer batches and still need
// more, if the kernel splits the keys of few batches (split-K).
std::size_t chunk_workspace(const ProblemSize& size, std::int64_t batches, const Execution& execution);

}  // namespace strobe::solve
