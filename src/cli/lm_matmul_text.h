// The share of matmuls in a profile, as tables and as JSON. lm_profile_text.cpp and lm_profile.cpp call.
#pragma once

#include <span>
#include <string>

#include "core/json.h"
#include "lm/profile/trace.h"

namespace strobe::cli {

std::string matmul_table(const lm::Profile& profile);
std::string matmul_summary(std::span<const lm::NamedProfile> profiles);  // one row per profile
Json matmul_shares_json(const lm::Profile& profile);

}  // namespace strobe::cli
