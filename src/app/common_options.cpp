#include "app/common_options.h"

#include <limits>
#include <utility>

namespace strobe {

Option make_seed_option(std::function<void(std::uint64_t seed)> apply) {
  return {.name = "seed",
          .placeholder = "N",
          .help = "random seed, 0 or more; default 1",
          .apply = [apply = std::move(apply)](auto flag, auto value) {
            apply(static_cast<std::uint64_t>(parse_integer(flag, value, 0, std::numeric_limits<std::int64_t>::max())));
          }};
}

Option make_quick_option(bool& target) {
  return make_switch("quick", "do not measure the machine's rates; nothing else changes; default off", target);
}

}  // namespace strobe
