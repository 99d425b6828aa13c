// A profile as tables for people and as a row of the result file. `strobe lm profile` calls.
#pragma once

#include <string>

#include "cli/lm_bench_options.h"
#include "core/json.h"
#include "lm/profile/trace.h"

namespace strobe::cli {

std::string lm_profile_text(const lm::NamedProfile& named);
Json lm_profile_json(const LmBenchCell& cell, const lm::Profile& profile);
Json lm_profile_oom_json(const LmBenchCell& cell, const std::string& error);  // of one that does not fit

}  // namespace strobe::cli
