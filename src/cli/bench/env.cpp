// Implements `strobe env`: prints this machine's properties and measured rates.
#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "app/common_options.h"
#include "app/help.h"
#include "app/options.h"
#include "app/terminal.h"
#include "bench/ceilings.h"
#include "cli/verbs.h"
#include "core/short_number.h"
#include "device/host/thread_pool.h"
#include "results/table.h"

namespace strobe::cli {
namespace {

constexpr const char* kEnvIntroduction =
    "usage: strobe env [--json] [--threads N] [--quick]\n\n"
    "Prints processor, caches, instruction sets, memory, GPU, libraries, revision, and measured maximum rates.\n\n";

std::string bytes_text(const Json& bytes) { return strobe::bytes_text(static_cast<std::size_t>(bytes.as_number())); }

std::string rate_text(const Json& rate, double unit, const char* name) {
  return rate.is_null() ? "not measured" : fmt::format("{:.1f} {}", rate.as_number() / unit, name);
}

std::string list_text(const Json& items) {
  std::string text;
  for (const Json& item : items.as_array()) text += (text.empty() ? "" : " ") + item.as_string();
  return text;
}

std::string cache_text(const Json& caches) {
  std::string text;
  for (const auto& [name, cache] : caches.as_object()) {
    const std::int64_t shared = cache.at("shared_by").as_integer();
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", name, bytes_text(cache.at("bytes")),
                        shared > 1 ? fmt::format(" (shared by {})", shared) : "");
  }
  return text.empty() ? "unknown" : text;
}

std::string mhz_text(const Json& mhz) { return mhz.is_null() ? "unknown" : fmt::format("{:.0f} MHz", mhz.as_number()); }

std::string gpu_text(const Json& gpu) {
  std::string text;
  for (const Json& one : gpu.at("gpus").as_array()) {
    text +=
        fmt::format("{}{} (compute {}, {} multiprocessors, {}, L2 {}, {} shared per block, {:.0f} MHz, memory {:.0f})",
                    text.empty() ? "" : ", ", one.at("name").as_string(), one.at("compute").as_string(),
                    one.at("multiprocessors").as_integer(), bytes_text(one.at("memory")), bytes_text(one.at("l2")),
                    bytes_text(one.at("shared_per_block")), one.at("clock_mhz").as_number(),
                    one.at("memory_clock_mhz").as_number());
  }
  if (text.empty()) text = "none";
  if (const Json* reason = gpu.find("reason")) text += ": " + reason->as_string();
  return text;
}

// Returns "driver 13.0, runtime 13.0"; empty in a build without CUDA.
std::string cuda_text(const Json& gpu) {
  std::string text;
  for (const char* part : {"driver", "runtime"}) {
    const Json* version = gpu.find(part);
    if (version) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", part, version->as_string());
  }
  return text;
}

// Formats the time that the timing harness measures for the shortest possible work.
std::string timed_text(const Json& seconds) {
  return seconds.is_null() ? "not measured" : fmt::format("timed as {:.3g} us", 1e6 * seconds.as_number());
}

void add_gpu_rates(Table& table, const Json& ceilings) {
  table.cells.push_back({"", ""});
  table.cells.push_back({"measured", "on the GPU"});
  const std::pair<const char*, const char*> matmuls[] = {
      {"bf16", "8192^3"}, {"fp16", "8192^3"}, {"tf32", "8192^3"}, {"fp32", "4096^3, without tf32"}};
  for (const auto& [type, size] : matmuls) {
    const Json& rate = ceilings.at("cublas_flop_per_s").at(type);
    table.cells.push_back(
        {fmt::format("cuBLAS {}", type),
         rate_text(rate, 1e12, "TFLOP/s") + (rate.is_null() ? "" : fmt::format(", matmul at {}", size))});
  }
  if (const Json* refusal = ceilings.find("cublas_refusal")) table.cells.push_back({"", refusal->as_string()});
  table.cells.push_back({"copy on the GPU", rate_text(ceilings.at("copy_bytes_per_s"), 1e9, "GB/s read and written")});
  table.cells.push_back({"smallest kernel", timed_text(ceilings.at("timed_least_s"))});
  if (const Json* call = ceilings.find("host_call_s")) {
    const auto us = [&](const char* which) { return 1e6 * call->at(which).as_number(); };
    table.cells.push_back(
        {"host time per call", fmt::format("{:.3g} us forward, {:.3g} us backward, {:.3g} us large backward",
                                           us("forward"), us("backward"), us("large_backward"))});
    table.cells.push_back({"", fmt::format("medians {:.3g}, {:.3g} and {:.3g} us", us("forward_median"),
                                           us("backward_median"), us("large_backward_median"))});
    table.cells.push_back({"", fmt::format("first call {:.3g} us, {:.3g} us including its module load",
                                           us("first_loaded"), us("first"))});
  }
}

std::string sets_text(const Json& environment) {
  std::string text;
  for (const auto& [name, state] : environment.at("instruction_sets").as_object()) {
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", name,
                        state.as_string() == "available" ? "" : " (not on this machine)");
  }
  std::string used;
  for (const auto& [type, name] : environment.at("instruction_set_used").as_object()) {
    used += fmt::format("{}{} for {}", used.empty() ? "" : ", ", name.as_string(), type);
  }
  return text + "; used: " + used;
}

// Returns the load, such as "0.4 on 2 cores", with a warning if other processes use the machine.
std::string load_text() {
  double load = 0;
  if (getloadavg(&load, 1) != 1) return "unknown";
  const bool busy = load >= 0.5 * available_cores();
  return fmt::format("{:.1f} on {} core{}{}", load, available_cores(), available_cores() == 1 ? "" : "s",
                     busy ? ": other processes use this machine; measured rates may be too low" : "");
}

// `load` is load_text() from before the measurements, because these raise the load average.
std::string environment_text(const Json& environment, const std::string& load) {
  Table table{.columns = {left("machine"), left("")}};
  const Json& cpu = environment.at("cpu");
  const Json& ceilings = environment.at("ceilings");
  table.cells.push_back({"cpu", cpu.at("model").as_string() + ", " + cpu.at("architecture").as_string()});
  table.cells.push_back(
      {"cores", fmt::format("{} of {}", cpu.at("cores").as_integer(), cpu.at("cores_online").as_integer())});
  table.cells.push_back(
      {"clocks", fmt::format("current {}, maximum {}", mhz_text(cpu.at("current_mhz")), mhz_text(cpu.at("max_mhz")))});
  table.cells.push_back({"load average", load});
  table.cells.push_back({"caches", cache_text(cpu.at("caches"))});
  table.cells.push_back({"features", list_text(cpu.at("isa"))});
  table.cells.push_back({"instruction sets", sets_text(environment)});
  table.cells.push_back({"memory", fmt::format("{}, {} available", bytes_text(environment.at("memory").at("total")),
                                               bytes_text(environment.at("memory").at("available")))});
  table.cells.push_back({"gpu", gpu_text(environment.at("gpu"))});
  if (const std::string cuda = cuda_text(environment.at("gpu")); !cuda.empty()) table.cells.push_back({"CUDA", cuda});
  table.cells.push_back({"system", environment.at("system").as_string()});
  table.cells.push_back({"compiler", environment.at("compiler").as_string()});
  table.cells.push_back({"OpenBLAS", environment.at("openblas").as_string()});
  table.cells.push_back({"strobe", fmt::format("{} ({})", environment.at("strobe").at("version").as_string(),
                                               environment.at("strobe").at("revision").as_string())});
  table.cells.push_back({"", ""});
  const std::int64_t threads = ceilings.at("threads").as_integer();
  table.cells.push_back({"measured", fmt::format("on {} thread{}", threads, threads == 1 ? "" : "s")});
  const auto rate = [&](const std::string& title, const Json& value, const std::string& what) {
    table.cells.push_back({title, rate_text(value, 1e9, "GFLOP/s") + (value.is_null() ? "" : what)});
  };
  rate("fp32 FMA peak, one core", ceilings.at("fma_fp32_core_flop_per_s"), "");
  rate("fp32 FMA peak", ceilings.at("fma_fp32_flop_per_s"), ", " + ceilings.at("fma_instructions").as_string());
  rate("OpenBLAS sgemm", ceilings.at("openblas_sgemm_flop_per_s"), ", full matmul at 2048^3");
  for (const char* type : {"fp32", "fp16", "bf16"}) {
    rate(fmt::format("packed GEMM {}", type), ceilings.at("packed_product_flop_per_s").at(type),
         ", flash2's inner loop, panels in cache");
  }
  for (const char* type : {"fp32", "fp16", "bf16"}) {
    rate(fmt::format("matmul rate {}", type), ceilings.at("matrix_product_flop_per_s").at(type),
         fmt::format(", reference rate of results: {}", ceilings.at("matrix_product_by").at(type).as_string()));
  }
  table.cells.push_back({"copy", rate_text(ceilings.at("copy_bytes_per_s"), 1e9, "GB/s read and written")});
  table.cells.push_back({"a wait of 1 us", timed_text(ceilings.at("timed_least_s"))});
  if (const Json* gpu = environment.find("gpu_ceilings")) add_gpu_rates(table, *gpu);
  return table.text();
}

}  // namespace

int run_env(Arguments arguments) {
  bool json = false;
  bool quick = false;
  std::optional<int> threads;
  OptionTable table;
  table.add_flag("json", "print JSON", json);
  table.add(make_threads_option("for the measured rates", threads));
  table.add(make_quick_option(quick));
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print_help(kEnvIntroduction + table.help());
    return kFine;
  }
  const std::string load = load_text();
  const bench::Depth depth = quick ? bench::Depth::none : bench::Depth::full;
  Json environment = bench::full_environment(bench::measure_ceilings(threads_of(threads), bench::kAllTypes, depth));
  if (!environment.at("gpu").at("gpus").as_array().empty()) {
    environment.set("gpu_ceilings", bench::gpu_ceilings_json(bench::measure_gpu_ceilings(bench::kAllTypes, depth)));
  }
  print(json ? environment.dump(1) + "\n" : environment_text(environment, load));
  return kFine;
}

}  // namespace strobe::cli
