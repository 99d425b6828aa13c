// Ways to exchange gradients, each three choices: how they are grouped, when a group is started, and who updates what.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strobe::lm {

enum class Grouping { each, all, buckets };  // one call a parameter, one for all, one a bucket
enum class Start { after_backward, when_ready };
enum class Updates {
  all,             // every rank updates every parameter
  share,           // of summed gradients, a rank its share of each group; then values are gathered
  scattered_share  // the same, and a rank gets the sums of its share alone
};

struct Strategy {
  const char* name;
  Grouping grouping;
  Start start;
  Updates updates;
};

// naive, flat, overlap, bucketed, sharded, sharded-overlap, sharded-rs.
std::span<const Strategy> strategies();
std::vector<std::string> strategy_names();
// Throws Error(invalid_argument) with the valid names.
const Strategy& strategy_of(std::string_view name);

}  // namespace strobe::lm
