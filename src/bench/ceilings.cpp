// Puts together measure/'s rates and attention's own packed product.
#include "bench/ceilings.h"

#include <algorithm>

#include "attention/cpu/product_rate.h"
#include "attention/standard/gpu_product_rate.h"
#include "device/host/thread_pool.h"
#include "measure/environment.h"
#include "measure/rates.h"

namespace strobe::bench {
namespace {

constexpr DType kTypes[] = {DType::fp32, DType::fp16, DType::bf16};

Json rate_json(const std::optional<double>& rate) { return rate ? Json(*rate) : Json(); }

}  // namespace

std::optional<double> Ceilings::product(DType dtype) const {
  if (device == Device::cuda) return cublas[static_cast<int>(dtype)];
  return dtype == DType::fp32 ? sgemm : packed[static_cast<int>(dtype)];
}

const char* Ceilings::product_name(DType dtype) const {
  if (device == Device::cuda) return "cuBLAS";
  return dtype == DType::fp32 ? "OpenBLAS sgemm" : "packed inner product";
}

bool Ceilings::disturbed() const {
  const std::optional<double> inner = packed[static_cast<int>(DType::fp32)];
  return sgemm && inner && *sgemm < 0.5 * *inner;
}

std::optional<double> Ceilings::fastest(DType dtype) const {
  return std::max(product(dtype), packed[static_cast<int>(dtype)]);  // nothing measured counts as least
}

Ceilings measure_ceilings(int threads, DType dtype, Depth depth) {
  Ceilings ceilings;
  ceilings.threads = std::min(threads, available_cores());  // more threads than cores have no rate of their own
  ceilings.fma_instructions = fma_instructions();
  if (depth == Depth::none) return ceilings;
  const int all = ceilings.threads;
  const double share = depth == Depth::full ? 0.3 : 0.06;
  ceilings.fma_all = fma_rate(all, share);
  ceilings.sgemm = blas_product_rate(all, share);
  for (const DType type : kTypes) {
    if (depth == Depth::full || type == DType::fp32 || type == dtype) {
      ceilings.packed[static_cast<int>(type)] = matrix_product_rate(type, all, share);
    }
  }
  ceilings.copy = copy_rate(all, share);
  if (depth == Depth::full) ceilings.fma_core = fma_rate(1, share);
  return ceilings;
}

Ceilings ceilings_for(const Case& one, Depth depth) {
  if (one.device == Device::cpu) return measure_ceilings(one.threads, one.dtype, depth);
  Ceilings ceilings;
  ceilings.device = one.device;
  if (depth == Depth::none) return ceilings;
  ceilings.copy = gpu_copy_rate();
  ceilings.cublas[static_cast<int>(one.dtype)] = gpu_product_rate(one.dtype);
  return ceilings;
}

Json ceilings_json(const Ceilings& ceilings) {
  Json product = Json::object();
  Json product_by = Json::object();
  Json packed = Json::object();
  for (const DType type : kTypes) {
    product.set(name_of(type), rate_json(ceilings.product(type)));
    product_by.set(name_of(type), ceilings.product_name(type));
    packed.set(name_of(type), rate_json(ceilings.packed[static_cast<int>(type)]));
  }
  return Json::object({{"threads", ceilings.threads},
                       {"fma_instructions", ceilings.fma_instructions},
                       {"fma_fp32_core(FLOP/s)", rate_json(ceilings.fma_core)},
                       {"fma_fp32(FLOP/s)", rate_json(ceilings.fma_all)},
                       {"matrix_product(FLOP/s)", product},
                       {"matrix_product_by", product_by},
                       {"openblas_sgemm(FLOP/s)", rate_json(ceilings.sgemm)},
                       {"packed_product(FLOP/s)", packed},
                       {"copy(B/s)", rate_json(ceilings.copy)}});
}

Json full_environment(const Ceilings& ceilings) {
  Json json = environment_json();
  Json sets = Json::object();
  for (const InstructionSet& set : instruction_sets()) sets.set(set.name, set.available ? "available" : "built in");
  Json used = Json::object();
  for (const DType type : kTypes) used.set(name_of(type), instruction_set_for(type));
  json.set("instruction_sets", sets);
  json.set("instruction_set_used", used);
  json.set("ceilings", ceilings_json(ceilings));
  return json;
}

}  // namespace strobe::bench
