// Measures the ceilings with the benchmarks of measure/ and attention's packed matmul.
#include "bench/ceilings.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <vector>

#include "attention/cpu/matmul_rate.h"
#include "attention/standard/gpu_matmul_rate.h"
#include "core/statistics.h"
#include "device/gpu_buffer.h"
#include "device/gpu_stream.h"
#include "device/host/instruction_sets.h"
#include "device/host/thread_pool.h"
#include "measure/environment.h"
#include "measure/rates.h"
#include "strobe/attention.h"
#include "strobe/error.h"

namespace strobe::bench {
namespace {

Json rate_json(const std::optional<double>& rate) { return rate ? Json(*rate) : Json(); }

constexpr int kCalls = 10, kTries = 1000;

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A causal problem of one sequence on the GPU, with workspace.
class Calls {
 public:
  Calls(DType dtype, std::int64_t heads, std::int64_t length) : dtype_(dtype), shape_{1, heads, length, 64} {
    for (GpuBuffer& tensor : tensors_) {
      tensor = GpuBuffer(static_cast<std::size_t>(heads * length) * 64 * 2);
      tensor.fill(0x3f803f80u, stream_);  // 1.0 in bf16, almost 2 in fp16
    }
    lse_ = GpuBuffer(static_cast<std::size_t>(heads * length) * sizeof(float));
    workspace_ =
        GpuBuffer(std::max<std::size_t>(256, std::max(workspace_bytes(attention(), Pass::forward, execution()),
                                                      workspace_bytes(attention(), Pass::backward, execution()))));
    stream_.synchronize();
  }

  void forward() { strobe::forward(attention(), {.o = out(3), .lse = lse_.as<float>()}, execution()); }
  void backward() {
    strobe::backward(attention(), {.o = in(3), .lse = lse_.as<float>(), .d_o = in(4)},
                     {.dq = out(5), .dk = out(6), .dv = out(7)}, execution());
  }

  CallTime cost(void (Calls::*run)()) {
    (this->*run)();
    std::vector<double> seconds(kTries);
    for (double& each : seconds) {
      stream_.synchronize();
      each = seconds_of([&] {
        for (int call = 0; call < kCalls; ++call) (this->*run)();
      });
      each /= kCalls;
    }
    stream_.synchronize();
    const Summary found = summarize(seconds);
    return {found.min, found.median};
  }

 private:
  ConstView in(int i) const { return view_bhsd<const void>(tensors_[i].data(), dtype_, shape_); }
  View out(int i) { return view_bhsd<void>(tensors_[i].data(), dtype_, shape_); }
  Attention attention() const { return {.q = in(0), .k = in(1), .v = in(2), .causal = true}; }
  Execution execution() {
    return {.device = Device::cuda,
            .deterministic = false,
            .stream = stream_.handle(),
            .workspace = workspace_.data(),
            .workspace_bytes = workspace_.bytes()};
  }

  DType dtype_;
  std::array<std::int64_t, 4> shape_;
  GpuStream stream_;
  GpuBuffer tensors_[8], lse_, workspace_;
};

}  // namespace

std::optional<double> Ceilings::matmul(DType dtype) const {
  if (device == Device::cuda) return cublas[static_cast<int>(dtype)];
  return dtype == DType::fp32 ? sgemm : packed[static_cast<int>(dtype)];
}

const char* Ceilings::matmul_name(DType dtype) const {
  if (device == Device::cuda) return "cuBLAS";
  return dtype == DType::fp32 ? "OpenBLAS sgemm" : "packed GEMM";
}

bool Ceilings::disturbed() const { return sgemm && fma_all && *sgemm < 0.5 * *fma_all; }

std::optional<double> Ceilings::fastest(DType dtype) const {
  return std::max(matmul(dtype), packed[static_cast<int>(dtype)]);  // nullopt compares as less than any rate
}

std::optional<double> rate_where_supported(const std::function<double()>& measure, std::string& refusal) {
  try {
    return measure();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    refusal = error.what();
    return std::nullopt;
  }
}

Ceilings measure_ceilings(int threads, std::span<const DType> types, Depth depth) {
  Ceilings ceilings;
  ceilings.threads = std::min(threads, available_cores());  // more threads than cores have no separate rate
  ceilings.fma_instructions = fma_instructions();
  if (depth == Depth::none) return ceilings;
  const int all = ceilings.threads;
  const double share = depth == Depth::full ? 0.3 : 0.06;
  ceilings.fma_all = fma_rate(all, share);
  ceilings.sgemm = sgemm_rate(all, share);
  for (const DType type : kAllTypes) {
    if (type == DType::fp32 || std::find(types.begin(), types.end(), type) != types.end()) {
      ceilings.packed[static_cast<int>(type)] = matmul_rate(type, all, share);
    }
  }
  ceilings.copy = copy_rate(all, share);
  ceilings.timed_least = timed_microsecond();
  if (depth == Depth::full) ceilings.fma_core = fma_rate(1, share);
  return ceilings;
}

Ceilings measure_gpu_ceilings(std::span<const DType> types, Depth depth) {
  Ceilings ceilings;
  ceilings.device = Device::cuda;
  if (depth == Depth::none) return ceilings;
  ceilings.copy = gpu_copy_rate();
  ceilings.timed_least = gpu_timed_empty_kernel();
  if (depth == Depth::full) ceilings.call = gpu_call_cost();
  for (const DType type : types) {
    ceilings.cublas[static_cast<int>(type)] =
        rate_where_supported([type] { return gpu_matmul_rate(type); }, ceilings.cublas_refusal);
  }
  if (depth == Depth::full) ceilings.tf32 = rate_where_supported(gpu_tf32_matmul_rate, ceilings.cublas_refusal);
  return ceilings;
}

Ceilings ceilings_for(std::span<const AttentionCase> cases, Depth depth) {
  const auto occurs = [&](DType type) {
    return std::any_of(cases.begin(), cases.end(), [&](const AttentionCase& one) { return one.dtype == type; });
  };
  std::vector<DType> types;
  std::copy_if(std::begin(kAllTypes), std::end(kAllTypes), std::back_inserter(types), occurs);
  const AttentionCase& first = cases.front();
  return first.device == Device::cpu ? measure_ceilings(first.threads, types, depth)
                                     : measure_gpu_ceilings(types, depth);
}

Json ceilings_json(const Ceilings& ceilings) {
  Json matmul = Json::object();
  Json matmul_by = Json::object();
  Json packed = Json::object();
  for (const DType type : kAllTypes) {
    matmul.set(name_of(type), rate_json(ceilings.matmul(type)));
    matmul_by.set(name_of(type), ceilings.matmul_name(type));
    packed.set(name_of(type), rate_json(ceilings.packed[static_cast<int>(type)]));
  }
  return Json::object({{"threads", ceilings.threads},
                       {"fma_instructions", ceilings.fma_instructions},
                       {"fma_fp32_core_flop_per_s", rate_json(ceilings.fma_core)},
                       {"fma_fp32_flop_per_s", rate_json(ceilings.fma_all)},
                       {"matrix_product_flop_per_s", matmul},
                       {"matrix_product_by", matmul_by},
                       {"openblas_sgemm_flop_per_s", rate_json(ceilings.sgemm)},
                       {"packed_product_flop_per_s", packed},
                       {"copy_bytes_per_s", rate_json(ceilings.copy)},
                       {"timed_least_s", rate_json(ceilings.timed_least)}});
}

Json gpu_ceilings_json(const Ceilings& ceilings) {
  Json matmul = Json::object();
  for (const DType type : kAllTypes) matmul.set(name_of(type), rate_json(ceilings.matmul(type)));
  matmul.set("tf32", rate_json(ceilings.tf32));
  Json json = Json::object({{"cublas_flop_per_s", matmul},
                            {"copy_bytes_per_s", rate_json(ceilings.copy)},
                            {"timed_least_s", rate_json(ceilings.timed_least)}});
  if (!ceilings.cublas_refusal.empty()) json.set("cublas_refusal", ceilings.cublas_refusal);
  if (ceilings.call) {
    const CallCost& call = *ceilings.call;
    json.set("host_call_s", Json::object({{"first", call.first},
                                          {"first_loaded", call.first_loaded},
                                          {"forward", call.forward.least},
                                          {"forward_median", call.forward.median},
                                          {"backward", call.backward.least},
                                          {"backward_median", call.backward.median},
                                          {"large_backward", call.large_backward.least},
                                          {"large_backward_median", call.large_backward.median}}));
  }
  return json;
}

Json full_environment(const Ceilings& ceilings) {
  Json json = environment_json();
  Json sets = Json::object();
  for (const InstructionSet& set : instruction_sets()) sets.set(set.name, set.available ? "available" : "built in");
  Json used = Json::object();
  for (const DType type : kAllTypes) used.set(name_of(type), instruction_set_for(type));
  json.set("instruction_sets", sets);
  json.set("instruction_set_used", used);
  json.set("ceilings", ceilings_json(ceilings));
  return json;
}

CallCost gpu_call_cost() {
  // Kernels of both types are in one CUDA module.
  Calls loader(DType::fp16, 2, 256), small(DType::bf16, 2, 256), large(DType::bf16, 512, 512);
  CallCost cost;
  cost.first = seconds_of([&] { loader.forward(); });
  cost.first_loaded = seconds_of([&] { small.forward(); });
  cost.forward = small.cost(&Calls::forward);
  cost.backward = small.cost(&Calls::backward);
  cost.large_backward = large.cost(&Calls::backward);
  return cost;
}

}  // namespace strobe::bench
