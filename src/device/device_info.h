// What this machine is: its processor and its GPUs. `strobe env` prints it; every result carries it.
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
  int shared_by;  // cores that share one
};

struct CpuInfo {
  std::string model;
  std::string architecture;       // of this program: "x86_64", "aarch64"
  int cores = 0;                  // that this process may use
  int cores_online = 0;           // of the machine
  std::vector<CacheInfo> caches;  // those of the first core, by level; empty where the system does not say
  std::vector<std::string> isa;   // the flags that matter here, as the kernel spells them: "avx2", "amx_bf16", "asimd"
  double current_mhz = 0;         // of the first core; 0: the system does not say
  double max_mhz = 0;             // likewise
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
  std::size_t shared_bytes_per_block = 0;  // the most that a kernel can ask for
  double clock_mhz = 0;                    // highest of the multiprocessors
  double memory_clock_mhz = 0;
  int memory_bus_bits = 0;
};

struct GpuInventory {
  bool compiled_in = false;  // this build has CUDA
  std::string reason;        // why no GPU can be used; empty where there is one
  int driver_version = 0;    // CUDA version of the driver, 1000 * major + 10 * minor; 0: none
  int runtime_version = 0;   // likewise, of the runtime that is linked
  std::vector<GpuInfo> gpus;
};

// Asks the driver; never throws for the want of a GPU.
GpuInventory gpu_inventory();

// The calling thread's current GPU; all of it 0 where there is none.
GpuInfo current_gpu_info();

}  // namespace strobe
