// How a model computes: the type of activations and products. Parameters, norms, softmax, loss and optimizer are fp32
// in all of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "strobe/dtype.h"

namespace strobe::lm {

enum class Precision { fp32, tf32, bf16, fp16 };

std::vector<std::string> precision_names();  // fp32, tf32, bf16, fp16
const char* name_of(Precision precision);
Precision precision_of(std::string_view name);  // throws Error(invalid_argument) for another
DType dtype_of(Precision precision);            // tf32 rounds inside products alone

}  // namespace strobe::lm
