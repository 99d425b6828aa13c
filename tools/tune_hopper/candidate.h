// A Hopper forward kernel with one tile shape. For each line of candidates.txt CMake generates a source file from
// candidate.cu.in; it generates the list of all candidates from list.cpp.in.
#pragma once

#include <span>

#include "attention/cuda/sm90/forward/args.h"
#include "attention/cuda/sm90/forward/config.h"

namespace strobe::tune {

struct Candidate {
  cuda::sm90::HeadDims dims;
  cuda::sm90::ForwardShape shape;
  void (*start)(const cuda::sm90::ForwardArgs& args, int blocks, void* stream);  // bf16
};

std::span<const Candidate> candidates();

}  // namespace strobe::tune
