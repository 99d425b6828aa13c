// Which network a model is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace strobe::lm {

enum class Architecture {
  llama,  // RMSNorm, RoPE, SwiGLU; no bias
  gpt2,   // LayerNorm, a learned row for each position, GELU; a bias in every linear layer but the unembedding
};

// In the order of Architecture.
std::vector<std::string> architecture_names();
const char* name_of(Architecture architecture);
// Throws Error(invalid_argument) for another name.
Architecture architecture_of(std::string_view name);

}  // namespace strobe::lm
