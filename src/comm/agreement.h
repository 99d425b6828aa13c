// Texts between ranks, and whether all ranks are told the same. Where data parallel training begins.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/json.h"

namespace strobe::comm {

// The root's text, on all ranks.
std::string broadcast_text(Communicator& communicator, std::string text, int root = 0);

// The text of every rank, on all ranks.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& text);

// facts: an object with the same keys on all ranks. Throws Error(invalid_argument) on every rank where a rank's value
// is not rank 0's, with the key, both values, both ranks and their hosts.
void check_same_facts(Communicator& communicator, const Json& facts);

// `work` on rank 0 alone. Where it throws Error(invalid_argument) or Error(unsupported), every rank throws the same:
// bad input, which the others would tell of as rank 0's end.
void on_first_rank(Communicator& communicator, const std::function<void()>& work);

}  // namespace strobe::comm
