// Collects the facts about machine, libraries and build that affect a result. The generated revision.h defines
// STROBE_REVISION and STROBE_VERSION.
#include "measure/environment.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <time.h>

#include <sstream>

#include "device/device_info.h"
#include "device/host/blas_library.h"
#include "measure/revision.h"
#include "measure/system_info.h"

namespace strobe {
namespace {

std::string utc_now() {
  char text[32] = "";
  const time_t now = time(nullptr);
  tm utc{};
  if (gmtime_r(&now, &utc)) strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

Json cpu_json() {
  const CpuInfo cpu = cpu_info();
  Json caches = Json::object();
  for (const CacheInfo& cache : cpu.caches) {
    std::string name = fmt::format("L{}", cache.level);
    if (cache.type == "Data") name += 'd';
    if (cache.type == "Instruction") name += 'i';
    caches.set(name, Json::object({{"bytes", cache.bytes}, {"shared_by", cache.shared_by}}));
  }
  Json isa = Json::array();
  for (const std::string& flag : cpu.isa) isa.push_back(flag);
  return Json::object({{"model", cpu.model},
                       {"architecture", cpu.architecture},
                       {"cores", cpu.cores},
                       {"cores_online", cpu.cores_online},
                       {"current_mhz", cpu.current_mhz > 0 ? Json(cpu.current_mhz) : Json()},
                       {"max_mhz", cpu.max_mhz > 0 ? Json(cpu.max_mhz) : Json()},
                       {"caches", caches},
                       {"isa", isa}});
}

std::string cuda_version(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

Json gpu_json() {
  const GpuInventory inventory = gpu_inventory();
  Json gpus = Json::array();
  for (const GpuInfo& gpu : inventory.gpus) {
    gpus.push_back(Json::object({{"name", gpu.name},
                                 {"compute", fmt::format("{}.{}", gpu.compute_major, gpu.compute_minor)},
                                 {"multiprocessors", gpu.multiprocessors},
                                 {"memory", gpu.memory_bytes},
                                 {"memory_free", gpu.memory_free_bytes},
                                 {"l2", gpu.l2_bytes},
                                 {"shared_per_block", gpu.shared_bytes_per_block},
                                 {"clock_mhz", gpu.clock_mhz},
                                 {"memory_clock_mhz", gpu.memory_clock_mhz}}));
  }
  Json json = Json::object({{"compiled_in", inventory.compiled_in}});
  if (!inventory.reason.empty()) json.set("reason", inventory.reason);
  if (inventory.driver_version) json.set("driver", cuda_version(inventory.driver_version));
  if (inventory.runtime_version) json.set("runtime", cuda_version(inventory.runtime_version));
  return json.set("gpus", gpus);
}

}  // namespace

const char* build_revision() { return STROBE_REVISION; }
const char* build_version() { return STROBE_VERSION; }

std::string build_compiler() {
#if defined(__clang__)
  return __VERSION__;
#else
  return "g++ " __VERSION__;
#endif
}

std::string blas_version() {
  // "OpenBLAS 0.3.21 NO_LAPACKE ... NEOVERSEV1 MAX_THREADS=64"
  const blas::BlasLibrary& library = blas::blas_library();
  std::istringstream words(library.get_config());
  std::string name;
  std::string version;
  words >> name >> version;
  return fmt::format("{} ({})", version, library.get_corename());
}

Json environment_json() {
  const MemoryInfo memory = read_memory_info();
  double load[1] = {0};
  const bool has_load = getloadavg(load, 1) == 1;
  return Json::object({{"date", utc_now()},
                       {"cpu", cpu_json()},
                       {"memory", Json::object({{"total", memory.total}, {"available", memory.available}})},
                       {"load", has_load ? Json(load[0]) : Json()},
                       {"gpu", gpu_json()},
                       {"system", read_system()},
                       {"compiler", build_compiler()},
                       {"openblas", blas_version()},
                       {"strobe", Json::object({{"version", build_version()}, {"revision", build_revision()}})}});
}

}  // namespace strobe
