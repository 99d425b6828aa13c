// Helpers of data-parallel commands: ranks exchange texts, check that settings are equal, throw the same error, and
// wait for rank 0.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/json.h"
#include "strobe/error.h"

namespace strobe::comm {

// Returns the root's text on all ranks.
std::string broadcast_text(Communicator& communicator, std::string text, int root = 0);

// Returns the text of every rank on all ranks.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& text);

// Calls `advance` on rank 0 until it returns true. Meanwhile the other ranks sleep and use no core. Each call of
// `advance` must return within Limits::operation seconds.
void while_others_sleep(Communicator& communicator, const std::function<bool()>& advance);

// An error that all ranks throw together with the same code. Rank 0 prints its text for all.
class AgreedRefusal : public Error {
 public:
  using Error::Error;
};

// Checks settings that must be equal. `facts` is an object with the same keys on all ranks. If a rank's value differs
// from rank 0's, throws AgreedRefusal(invalid_argument) with the key, both values, both ranks and their hosts.
void check_same_facts(Communicator& communicator, const Json& facts);

// Runs `work` on rank 0 only. If `work` throws Error(invalid_argument) or Error(unsupported), every rank throws
// AgreedRefusal with the same code and text.
void on_first_rank(Communicator& communicator, const std::function<void()>& work);

}  // namespace strobe::comm
