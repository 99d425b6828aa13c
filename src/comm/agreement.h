// Texts between ranks, and decisions that all ranks must share: equal settings, refusals, waiting for rank 0. Data
// parallel commands call.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/json.h"
#include "strobe/error.h"

namespace strobe::comm {

// The root's text, on all ranks.
std::string broadcast_text(Communicator& communicator, std::string text, int root = 0);

// The text of every rank, on all ranks.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& text);

// Calls `advance` on rank 0 until it returns true. The other ranks sleep meanwhile, without using a core. Each call
// must end within the limit of an operation.
void while_others_sleep(Communicator& communicator, const std::function<bool()>& advance);

// A refusal that all ranks throw with the same text and code, so that one of them can print it for all.
class AgreedRefusal : public Error {
 public:
  using Error::Error;
};

// facts: an object with the same keys on all ranks. Throws AgreedRefusal(invalid_argument) if a rank's value is not
// rank 0's, with the key, both values, both ranks and their hosts.
void check_same_facts(Communicator& communicator, const Json& facts);

// Runs `work` on rank 0 only. If it throws Error(invalid_argument) or Error(unsupported), every rank throws the same as
// AgreedRefusal.
void on_first_rank(Communicator& communicator, const std::function<void()>& work);

}  // namespace strobe::comm
