// Describes this machine's processor and GPUs. `strobe env` prints this, and benchmark results contain it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace strobe {

struct CacheInfo {
  int level;
  std::string type;  // "Data", "Instruction" or "Unified"
  std::size_t bytes;
  std::size_t line_bytes;
  int shared_by;  // number of cores that share one such cache
};

struct CpuInfo {
  std::string model;
  std::string architecture;       // target of this program: "x86_64", "aarch64" or "other"
  int cores = 0;                  // cores that this process may use
  int cores_online = 0;           // all cores of the machine
  std::vector<CacheInfo> caches;  // caches of the first core, by level; empty if the system does not report them
  std::vector<std::string> isa;   // relevant processor flags as Linux spells them: "avx2", "amx_bf16", "asimd"
  double current_mhz = 0;         // current clock of the first core; 0 if the system does not report it
  double max_mhz = 0;             // highest clock of the first core; 0 if the system does not report it
  std::size_t memory_bytes = 0;
};

CpuInfo cpu_info();

struct GpuInfo {
  int index = 0;
  std::string name;
  int compute_major = 0;
  int compute_minor = 0;
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t memory_free_bytes = 0;
  std::size_t l2_bytes = 0;
  std::size_t shared_bytes_per_block = 0;  // limit of shared memory per block with opt-in
  double clock_mhz = 0;                    // highest multiprocessor clock
  double memory_clock_mhz = 0;
  int memory_bus_bits = 0;
};

struct GpuInventory {
  bool compiled_in = false;  // true if this build has CUDA
  std::string reason;        // reason why no GPU can be used; empty if one can
  int driver_version = 0;    // CUDA version of the driver, 1000 * major + 10 * minor; 0 if there is no driver
  int runtime_version = 0;   // version of the linked CUDA runtime in the same format
  std::vector<GpuInfo> gpus;
};

// Queries the driver. If no GPU can be used, it returns the reason instead of throwing.
GpuInventory gpu_inventory();

// Returns the calling thread's current GPU. All members are 0 if there is none.
GpuInfo current_gpu_info();

}  // namespace strobe
