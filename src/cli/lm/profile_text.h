// Formats a profile as tables and as a row of the result file.
#pragma once

#include <span>
#include <string>

#include "cli/lm/bench_options.h"
#include "core/json.h"
#include "lm/profile/trace.h"

namespace strobe::cli {

std::string lm_profile_text(const lm::NamedProfile& named);
Json lm_profile_json(const LmBenchCell& cell, const lm::Profile& profile);
Json lm_profile_oom_json(const LmBenchCell& cell, const std::string& error);  // for a cell that does not fit the memory

std::string matmul_table(const lm::Profile& profile);
std::string matmul_summary(std::span<const lm::NamedProfile> profiles);  // one row per profile
Json matmul_shares_json(const lm::Profile& profile);

}  // namespace strobe::cli
