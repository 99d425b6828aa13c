#include "app/threads.h"

#include <stdlib.h>

#include <algorithm>
#include <utility>

#include "device/host/thread_pool.h"

namespace strobe {
namespace {

int parse_threads(std::string_view from, std::string_view value) {
  return static_cast<int>(parse_integer(from, value, 1, kMaxThreads));
}

}  // namespace

Option make_threads_option(std::string help, std::optional<int>& target) {
  return {.name = "threads",
          .placeholder = "N",
          .help = std::move(help) + "; default: STROBE_THREADS, or all cores of this process",
          .apply = [&target](auto flag, auto value) { target = parse_threads(flag, value); }};
}

int threads_of(std::optional<int> said) {
  if (said) return *said;
  const char* const variable = getenv("STROBE_THREADS");
  return variable ? parse_threads("STROBE_THREADS", variable) : std::min(available_cores(), kMaxThreads);
}

}  // namespace strobe
