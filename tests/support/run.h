// Runs a case through the public API (forward, then backward) and through the float64 oracle.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/data.h"

namespace strobe::test {

// All outputs of the two passes, in logical order [b][h][s][c]. dbias and dsinks are empty unless requested.
struct Results {
  std::vector<double> o, lse, dq, dk, dv, dbias, dsinks;
};

// The members of Results with their names, for loops.
inline constexpr std::array<std::pair<const char*, std::vector<double> Results::*>, 7> kOutputs = {{
    {"O", &Results::o},
    {"LSE", &Results::lse},
    {"dQ", &Results::dq},
    {"dK", &Results::dk},
    {"dV", &Results::dv},
    {"dbias", &Results::dbias},
    {"dsinks", &Results::dsinks},
}};

struct RunOptions {
  std::string_view kernel;
  int threads = 1;
  bool own_workspace = false;  // has exactly workspace_bytes(), filled with NaN, between guards
};

// Results of both passes. Outputs are filled with NaN before each pass; the backward reads o and lse of this forward.
// complaint: one line for each output or workspace outside which a pass wrote, and for each pass that changed an input;
// empty if there is none.
struct Outcome {
  Results results;
  std::string complaint;

  // Adds the line "WHERE: WHAT" unless `what` is empty.
  void complain(std::string_view where, const std::string& what);
};

Outcome run(const Data& data, const RunOptions& options);

// The oracle: results of the kernel `reference` in float64, not rounded to the dtype. oracle_forward() leaves the
// gradients empty.
Results oracle(const Data& data, int threads = 2);
Results oracle_forward(const Data& data, int threads = 2);

}  // namespace strobe::test
