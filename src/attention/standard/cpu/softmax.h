// Operations on the rows of a head's score matrices: score options, softmax, dropout and their gradients.
#pragma once

#include "attention/standard/cpu/head.h"

namespace strobe::standard::cpu {

// probabilities() = softmax(mask(options(scores()))); writes LSE (forward), tanh() and sinks() (backward).
void softmax(const Head& head);

// dropped() from probabilities().
void dropout(const Head& head);

// d_scores() from d_probabilities(): the gradient of q.k, or of the logits if dbias is wanted. Turns sinks() from
// probabilities into gradients.
void softmax_gradient(const Head& head);

// dbias += d_scores(), then d_scores() from the logits' gradient to that of q.k.
void bias_gradient(const Head& head);

}  // namespace strobe::standard::cpu
