#include "lm/plan/predicted_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/fail.h"
#include "device/device_info.h"
#include "lm/model.h"
#include "lm/plan/device_memory.h"
#include "measure/system_info.h"

namespace strobe::lm {

namespace {

// All but what operations hold for themselves.
std::size_t predicted_model(const BenchCase& one) { return device_memory({.one = one}, 0).total(); }

}  // namespace

std::size_t predicted_workspace(const BenchCase& one) {
  const ModelShape& shape = one.shape;
  const DType dtype = dtype_of(one.precision);
  const GradientMemory gradients = gradient_memory_of(one);
  std::size_t most = products_workspace_bytes(shape, one.batch * shape.context, dtype, place_of(one), gradients);
  if (attention_memory_of(one.attention) == AttentionMemory::materialised) {
    if (one.place.device == Device::cuda) return most;
    return std::max(most, ops::attention_workspace_bytes(materialised_attention(shape, one.batch, dtype)));
  }
  const std::array<std::int64_t, 4> heads{one.batch, shape.heads, shape.context, shape.head_dim()};
  const auto view = [&](int which) { return view_packed_qkv<const void>(nullptr, dtype, heads, which); };
  const Attention problem{.q = view(0), .k = view(1), .v = view(2), .causal = true};
  const Execution execution{.device = one.place.device,
                            .kernel = one.attention,
                            .threads = one.place.threads,
                            .deterministic = one.place.deterministic,
                            .tf32 = one.precision == Precision::tf32};
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    if (pass == Pass::backward && gradients == GradientMemory::none) continue;
    most = std::max(most, strobe::workspace_bytes(problem, pass, execution));
  }
  return most;
}

std::size_t predicted_bytes(const BenchCase& one) { return predicted_model(one) + predicted_workspace(one); }

const BenchCase& check_memory(const BenchCase& one) {
  if (one.place.device == Device::cpu) check_shared_memory(one, 1);
  return one;
}

void check_shared_memory(const BenchCase& one, int processes) {
  const std::int64_t available = one.place.device == Device::cuda
                                     ? static_cast<std::int64_t>(current_gpu_info().memory_free_bytes)
                                     : read_memory_info().available;
  if (available <= 0) return;  // it is not known
  const std::size_t free = static_cast<std::size_t>(available) / static_cast<std::size_t>(processes);
  std::size_t needed = predicted_model(one);
  if (needed <= free) needed += predicted_workspace(one);
  if (needed <= free) return;
  fail(ErrorCode::out_of_memory, "cannot allocate {} bytes: {} are free{}", needed, free,
       processes == 1 ? "" : fmt::format(" for each of {} ranks that share them", processes));
}

}  // namespace strobe::lm
