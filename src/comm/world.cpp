// Reads rank and size from the launcher's environment variables. kLaunchers has one row per launcher.
#include "comm/world.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "core/fail.h"
#include "core/printable.h"

namespace strobe::comm {
namespace {

struct Launcher {
  const char *name, *rank, *size, *local_rank, *local_size;  // names of variables; null: no such variable
};

// Slurm sets SLURM_PROCID in the batch script too, but not SLURM_STEP_NUM_TASKS, so the script does not count as a
// rank.
constexpr Launcher kLaunchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr},
    {kTorchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"PMIx", "PMIX_RANK", nullptr, nullptr, nullptr},
};

std::optional<int> number(const Variable& variable, const char* name) {
  const char* text = name ? variable(name) : nullptr;
  if (!text) return std::nullopt;
  const std::string_view value = text;
  int number = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (code != std::errc() || end != value.data() + value.size() || number < 0)
    fail(ErrorCode::invalid_argument, "{} is {}: not a whole number of 0 or more", name, printable_value(value));
  return number;
}

std::string token_from(const Variable& variable) {
  const char* const text = variable(kTokenVariable);
  const std::string token = text ? text : "";
  if (!token.empty() && (token.size() < kShortestToken || token.size() > kLongestToken))
    fail(ErrorCode::invalid_argument, "{} has {} characters; valid: {} to {}, random and the same on all ranks",
         kTokenVariable, token.size(), kShortestToken, kLongestToken);
  return token;
}

std::string host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) != 0 || !name[0]) return "unknown-host";
  return printable(name);
}

}  // namespace

World world_from(const Variable& variable) {
  World world;
  world.host = host_name();
  if (const char* address = variable("MASTER_ADDR")) world.master_address = address;
  world.master_port = number(variable, "MASTER_PORT").value_or(0);
  world.master_listener = number(variable, kListenerVariable).value_or(-1);
  world.token = token_from(variable);
  if (const char* interface = variable(kInterfaceVariable)) world.interface = interface;
  for (const Launcher& launcher : kLaunchers) {
    const std::optional<int> rank = number(variable, launcher.rank);
    const std::optional<int> size = number(variable, launcher.size);
    if (!rank || (launcher.size && !size)) continue;
    world.launcher = launcher.name;
    world.rank = *rank;
    world.size = size.value_or(0);
    world.local_rank = number(variable, launcher.local_rank).value_or(world.rank);
    world.local_size = number(variable, launcher.local_size).value_or(0);
    world.started = number(variable, "STROBE_RANKS").value_or(0);
    // Accepts ranks from `size` to `started` - 1; the engine reports the mismatch of `size` and `started`.
    if (launcher.size && world.rank >= std::max(world.size, world.started))
      fail(ErrorCode::invalid_argument,
           "{} is {} and {} is {}: valid ranks are 0 to {}, and the size must be at least 1", launcher.rank, world.rank,
           launcher.size, world.size, world.size - 1);
    return world;
  }
  return world;
}

World this_world() {
  return world_from([](const char* name) -> const char* { return getenv(name); });
}

int gpu_of(const World& world, int gpus) { return world.local_rank % gpus; }

int ranks_on_gpu_of(const World& world, int gpus) {
  int ranks = 1;
  for (int other = 0; other < world.local_size; ++other) {
    if (other != world.local_rank && other % gpus == gpu_of(world, gpus)) ++ranks;
  }
  return ranks;
}

}  // namespace strobe::comm
