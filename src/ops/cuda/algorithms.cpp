// Finds candidate cuBLASLt algorithms. cuBLASLt has kernels for hundreds of tile sizes, but its heuristic proposes only
// a few. With 1,600 columns, for example, it does not propose the sizes that leave few multiprocessors idle. With
// these, matmuls are at least 10 % faster (docs/training.md).
#include "ops/cuda/algorithms.h"

#include <algorithm>
#include <utility>

#include "core/fail.h"
#include "device/gpu_facts.h"
#include "ops/cuda/cublas_lt_library.h"
#include "ops/cuda/tiles.h"

namespace strobe::ops::cuda {

namespace {

struct NamedTile {
  cublasLtMatmulTile_t name;
  Tile tile;  // tile of cuBLASLt's d: m x n
};

// Tile sizes with sides of 96 to 320 and 12,288 to 41,472 elements. Smaller tiles read too much; larger tiles exceed
// the registers.
#define STROBE_TILE(rows, cols)                          \
  {                                                      \
    CUBLASLT_MATMUL_TILE_##rows##x##cols, { rows, cols } \
  }
#if CUBLAS_VER_MAJOR >= 13
constexpr NamedTile kTiles[] = {
    STROBE_TILE(96, 128),  STROBE_TILE(96, 192),  STROBE_TILE(96, 256),  STROBE_TILE(96, 320),  STROBE_TILE(104, 128),
    STROBE_TILE(104, 192), STROBE_TILE(104, 256), STROBE_TILE(104, 320), STROBE_TILE(112, 128), STROBE_TILE(112, 192),
    STROBE_TILE(112, 256), STROBE_TILE(112, 320), STROBE_TILE(120, 128), STROBE_TILE(120, 192), STROBE_TILE(120, 256),
    STROBE_TILE(120, 320), STROBE_TILE(128, 96),  STROBE_TILE(128, 104), STROBE_TILE(128, 112), STROBE_TILE(128, 120),
    STROBE_TILE(128, 128), STROBE_TILE(128, 136), STROBE_TILE(128, 144), STROBE_TILE(128, 152), STROBE_TILE(128, 160),
    STROBE_TILE(128, 168), STROBE_TILE(128, 176), STROBE_TILE(128, 184), STROBE_TILE(128, 192), STROBE_TILE(128, 200),
    STROBE_TILE(128, 208), STROBE_TILE(128, 216), STROBE_TILE(128, 224), STROBE_TILE(128, 232), STROBE_TILE(128, 240),
    STROBE_TILE(128, 248), STROBE_TILE(128, 256), STROBE_TILE(128, 264), STROBE_TILE(128, 272), STROBE_TILE(128, 280),
    STROBE_TILE(128, 288), STROBE_TILE(128, 296), STROBE_TILE(128, 304), STROBE_TILE(128, 312), STROBE_TILE(128, 320),
    STROBE_TILE(136, 128), STROBE_TILE(136, 192), STROBE_TILE(136, 256), STROBE_TILE(144, 128), STROBE_TILE(144, 192),
    STROBE_TILE(144, 256), STROBE_TILE(152, 128), STROBE_TILE(152, 192), STROBE_TILE(152, 256), STROBE_TILE(160, 128),
    STROBE_TILE(160, 192), STROBE_TILE(160, 256), STROBE_TILE(168, 128), STROBE_TILE(168, 192), STROBE_TILE(176, 128),
    STROBE_TILE(176, 192), STROBE_TILE(184, 128), STROBE_TILE(184, 192), STROBE_TILE(192, 96),  STROBE_TILE(192, 104),
    STROBE_TILE(192, 112), STROBE_TILE(192, 120), STROBE_TILE(192, 128), STROBE_TILE(192, 136), STROBE_TILE(192, 144),
    STROBE_TILE(192, 152), STROBE_TILE(192, 160), STROBE_TILE(192, 168), STROBE_TILE(192, 176), STROBE_TILE(192, 184),
    STROBE_TILE(192, 192), STROBE_TILE(192, 200), STROBE_TILE(192, 208), STROBE_TILE(192, 216), STROBE_TILE(200, 128),
    STROBE_TILE(200, 192), STROBE_TILE(208, 128), STROBE_TILE(208, 192), STROBE_TILE(216, 128), STROBE_TILE(216, 192),
    STROBE_TILE(224, 128), STROBE_TILE(232, 128), STROBE_TILE(240, 128), STROBE_TILE(248, 128), STROBE_TILE(256, 96),
    STROBE_TILE(256, 104), STROBE_TILE(256, 112), STROBE_TILE(256, 120), STROBE_TILE(256, 128), STROBE_TILE(256, 136),
    STROBE_TILE(256, 144), STROBE_TILE(256, 152), STROBE_TILE(256, 160), STROBE_TILE(264, 128), STROBE_TILE(272, 128),
    STROBE_TILE(280, 128), STROBE_TILE(288, 128), STROBE_TILE(296, 128), STROBE_TILE(304, 128), STROBE_TILE(312, 128),
    STROBE_TILE(320, 96),  STROBE_TILE(320, 104), STROBE_TILE(320, 112), STROBE_TILE(320, 120), STROBE_TILE(320, 128),
};
#else  // older headers define few of these tile sizes
constexpr NamedTile kTiles[] = {STROBE_TILE(128, 128), STROBE_TILE(128, 160), STROBE_TILE(128, 192),
                                STROBE_TILE(128, 256), STROBE_TILE(160, 128), STROBE_TILE(192, 128),
                                STROBE_TILE(256, 128)};
#endif
#undef STROBE_TILE

template <class Value>
void prefer(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t which, const Value& value) {
  check(cublas_lt().preference_set(preference, which, &value, sizeof value), "cublasLtMatmulPreferenceSetAttribute");
}

// Sets an option of an algorithm. Returns false if the algorithm does not have the option.
template <class Value>
bool configure(cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t which, Value value) {
  return cublas_lt().algorithm_set(&algorithm, which, &value, sizeof value) == CUBLAS_STATUS_SUCCESS;
}

std::vector<std::uint32_t> tiles_of(const cublasLtMatmulAlgo_t& algorithm) {
  std::size_t bytes = 0;
  const auto get = [&](void* to, std::size_t capacity) {
    return cublas_lt().algorithm_get(&algorithm, CUBLASLT_ALGO_CAP_TILE_IDS, to, capacity, &bytes) ==
           CUBLAS_STATUS_SUCCESS;
  };
  if (!get(nullptr, 0)) return {};
  std::vector<std::uint32_t> tiles(bytes / sizeof(std::uint32_t));
  return get(tiles.data(), bytes) ? tiles : std::vector<std::uint32_t>();
}

std::uint32_t last_option_of(const cublasLtMatmulAlgo_t& algorithm) {
  std::uint32_t last = 0;
  std::size_t bytes = 0;
  const cublasStatus_t status =
      cublas_lt().algorithm_get(&algorithm, CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX, &last, sizeof last, &bytes);
  return status == CUBLAS_STATUS_SUCCESS ? last : 0;
}

// Returns the tile sizes of kTiles that the algorithm supports, sorted by expected rate, best first.
std::vector<cublasLtMatmulTile_t> best_tiles(const Shape& s, const cublasLtMatmulAlgo_t& algorithm) {
  const int multiprocessors = current_gpu().facts.multiprocessors;
  const std::vector<std::uint32_t> has = tiles_of(algorithm);
  std::vector<std::pair<double, cublasLtMatmulTile_t>> ranked;
  for (const NamedTile& one : kTiles) {
    if (std::find(has.begin(), has.end(), static_cast<std::uint32_t>(one.name)) == has.end()) continue;
    ranked.emplace_back(-expected_rate(s.m, s.n, one.tile, multiprocessors), one.name);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<cublasLtMatmulTile_t> tiles;
  for (const auto& [rate, name] : ranked) tiles.push_back(name);
  return tiles;
}

bool runs(cublasLtHandle_t handle, const Shape& s, const Plan& plan, const cublasLtMatmulAlgo_t& algorithm) {
  cublasLtMatmulHeuristicResult_t result{};
  return cublas_lt().algorithm_check(handle, plan.matmul, plan.a, plan.b, plan.d, plan.d, &algorithm, &result) ==
             CUBLAS_STATUS_SUCCESS &&
         result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= s.workspace;
}

}  // namespace

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::out_of_memory : ErrorCode::runtime, "cuda: {} failed: {} ({})",
       what, cublas_lt().status_text(status), cublas_lt().status_name(status));
}

Algorithms ask_heuristic(cublasLtHandle_t handle, const Shape& s, const Plan& plan) {
  cublasLtMatmulPreference_t preference = nullptr;
  check(cublas_lt().preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, s.workspace);
  prefer(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  constexpr cublasLtMatmulPreferenceAttributes_t kAlignments[] = {
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
  for (std::size_t i = 0; i < 4; ++i) prefer(preference, kAlignments[i], std::uint32_t{s.alignment[i]});
  constexpr int kTimed = 32;
  std::array<cublasLtMatmulHeuristicResult_t, kTimed> results{};
  int found = 0;
  const cublasStatus_t status = cublas_lt().heuristic(handle, plan.matmul, plan.a, plan.b, plan.d, plan.d, preference,
                                                      s.timed ? kTimed : 1, results.data(), &found);
  cublas_lt().preference_destroy(preference);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && found == 0)) {
    fail(ErrorCode::unsupported, "cuda: cuBLASLt has no matmul [{} x {}] [{} x {}] of {} to {}{}", s.n, s.k, s.k, s.m,
         name_of(s.in), name_of(s.out), s.bias_alignment > 0 ? " with a bias" : "");
  }
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  Algorithms algorithms;
  for (int i = 0; i < found; ++i) {
    if (results[static_cast<std::size_t>(i)].state == CUBLAS_STATUS_SUCCESS) {
      algorithms.push_back(results[static_cast<std::size_t>(i)].algo);
    }
  }
  if (algorithms.empty()) check(results[0].state, "cublasLtMatmulAlgoGetHeuristic");
  return algorithms;
}

Algorithms vary_tiles(cublasLtHandle_t handle, const Shape& s, const Plan& plan, const cublasLtMatmulAlgo_t& proposal) {
  constexpr double kWorthIt = 1e9;    // FLOPs; smaller matmuls take only microseconds
  constexpr std::size_t kTried = 14;  // tile sizes to time; for the model `xl` the fastest ranked among the first 13
  if (2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k) < kWorthIt) return {};
  const std::uint32_t last_option = last_option_of(proposal);
  Algorithms found;
  std::size_t tried = 0;
  for (const cublasLtMatmulTile_t tile : best_tiles(s, proposal)) {
    const std::size_t before = found.size();
    for (const auto cluster :
         {CUBLASLT_CLUSTER_SHAPE_1x1x1, CUBLASLT_CLUSTER_SHAPE_2x1x1, CUBLASLT_CLUSTER_SHAPE_1x2x1}) {
      for (std::uint32_t option = 0; option <= last_option; ++option) {
        cublasLtMatmulAlgo_t varied = proposal;
        if (configure(varied, CUBLASLT_ALGO_CONFIG_TILE_ID, static_cast<std::uint32_t>(tile)) &&
            configure(varied, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, static_cast<std::uint16_t>(cluster)) &&
            configure(varied, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, option) && runs(handle, s, plan, varied))
          found.push_back(varied);
      }
    }
    if (found.size() > before && ++tried == kTried) break;
  }
  return found;
}

}  // namespace strobe::ops::cuda
