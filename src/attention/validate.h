// Validates the arguments of a call and returns a Problem, or throws an Error that contains the invalid values. Called
// by attention.cpp.
#pragma once

#include "attention/problem.h"

namespace strobe {

Problem validate_forward(const Attention& attention, const ForwardOutputs& outputs, const Execution& execution);

Problem validate_backward(const Attention& attention, const BackwardInputs& inputs, const Gradients& gradients,
                          const Execution& execution);

// Validates the arguments of workspace_bytes() and explain(). Data pointers of tensors may be null; those of lengths
// and offsets may not. Outputs are assumed to be contiguous. The gradient of a bias or of sinks is assumed to be wanted
// if the bias or the sinks are given.
Problem validate_query(const Attention& attention, Pass pass, const Execution& execution);

// Throws if the first `bytes` bytes of the workspace overlap a tensor or an array of the call.
void check_workspace_apart(const Problem& problem, const void* workspace, std::size_t bytes);

}  // namespace strobe
