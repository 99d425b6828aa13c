// Implements the names of shardings and the checks of meshes.
#include "lm/plan/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/fail.h"
#include "lm/models/choices.h"

namespace strobe::lm {

namespace {

constexpr const char* kShardingNames[] = {"replicated", "optimizer", "gradients", "weights"};

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> all;
  for (std::int64_t one = 1; one <= number; ++one) {
    if (number % one == 0) all.push_back(one);
  }
  return all;
}

}  // namespace

std::vector<std::string> sharding_names() { return {std::begin(kShardingNames), std::end(kShardingNames)}; }

const char* name_of(Sharding sharding) { return kShardingNames[static_cast<int>(sharding)]; }

Sharding sharding_of(std::string_view name) {
  return static_cast<Sharding>(index_of_name("--sharding", name, kShardingNames));
}

void check_sizes(const Mesh& mesh) {
  if (std::min({mesh.data, mesh.shard, mesh.tensor, mesh.pipeline}) < 1) {
    fail(ErrorCode::invalid_argument, "mesh data={},shard={},tensor={},pipeline={}; valid: 1 or more each", mesh.data,
         mesh.shard, mesh.tensor, mesh.pipeline);
  }
}

void check(const Mesh& mesh, const ModelShape& shape) {
  check_sizes(mesh);
  if (shape.heads % mesh.tensor != 0 || shape.d_ff % mesh.tensor != 0) {
    fail(ErrorCode::invalid_argument, "mesh tensor={}: does not divide {} heads and d_ff {}; valid: {}", mesh.tensor,
         shape.heads, shape.d_ff, fmt::join(divisors(std::gcd(shape.heads, shape.d_ff)), ", "));
  }
}

}  // namespace strobe::lm
