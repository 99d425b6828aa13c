// Validates the arguments of a call and returns a Problem, or throws an Error with the offending values. attention.cpp
// calls this first.
#pragma once

#include "attention/problem.h"

namespace strobe {

Problem validate_forward(const Attention& attention, const ForwardOutputs& outputs, const Execution& execution);

Problem validate_backward(const Attention& attention, const BackwardInputs& inputs, const Gradients& gradients,
                          const Execution& execution);

// For workspace_bytes() and explain(). Data pointers may be null, except those of lengths and offsets. Outputs count as
// contiguous, and the gradients of bias and sinks as wanted if the problem has them.
Problem validate_query(const Attention& attention, Pass pass, const Execution& execution);

// Throws if the bytes of the workspace that a kernel uses overlap a tensor or an array of the call.
void check_workspace_apart(const Problem& problem, const void* workspace, std::size_t bytes);

}  // namespace strobe
