// Implements the options --seed, --quick and --threads.
#include "app/common_options.h"

#include <stdlib.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "device/host/thread_pool.h"

namespace strobe {
namespace {

int parse_threads(std::string_view from, std::string_view value) {
  return static_cast<int>(parse_integer(from, value, 1, kMaxThreads));
}

}  // namespace

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

Option make_threads_option(std::string help, std::optional<int>& target) {
  return {.name = "threads",
          .placeholder = "N",
          .help = std::move(help) + "; default: STROBE_THREADS, or all cores of this process",
          .apply = [&target](auto flag, auto value) { target = parse_threads(flag, value); }};
}

int threads_of(std::optional<int> flag) {
  if (flag) return *flag;
  const char* const variable = getenv("STROBE_THREADS");
  return variable ? parse_threads("STROBE_THREADS", variable) : std::min(available_cores(), kMaxThreads);
}

}  // namespace strobe
