// How much of a step's time matmuls take, with attention counted apart from linear layers. `strobe lm profile` prints
// it. Pure functions of a profile.
#pragma once

#include <initializer_list>

#include "lm/profile/profile.h"

namespace strobe::lm {

// True unless the profile has attention's softmax apart: on the CPU as a part, on a GPU as a kernel.
bool is_attention_fused(const Profile& profile);

// Seconds of all recorded steps, by class.
struct MatmulTime {
  double linear = 0;             // matmuls of linear layers, the unembedding included
  double attention_matmuls = 0;  // Q K^T, P V and their gradients; 0 if attention is fused
  double attention_rest = 0;     // softmax, copies, gaps between parts; the whole of attention if it is fused
  double other = 0;

  double all() const { return linear + attention_matmuls + attention_rest + other; }
  double linear_share() const;  // fraction of all(); 0 if all() is 0
  // Matmuls with those of attention, a share of all(). A fused kernel has no time of its own for its matmuls: it counts
  // as a whole, so that the share is an upper bound.
  double share_with_attention(bool is_fused) const;
};

MatmulTime matmul_time(const Profile& profile, std::initializer_list<Phase> phases);

}  // namespace strobe::lm
