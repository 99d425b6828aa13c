// OpenBLAS's functions. A shared OpenBLAS is opened by the first call that needs it, not linked: its start-up code
// allocates memory and never returns if there is none.
#pragma once

#include <cblas.h>

#include <cstddef>
#include <span>
#include <string_view>

#include "device/host/instruction_sets.h"

namespace strobe::blas {

struct BlasLibrary {
  decltype(cblas_sgemm)* sgemm;
  decltype(cblas_dgemm)* dgemm;
  decltype(openblas_get_num_threads)* get_num_threads;
  decltype(openblas_set_num_threads)* set_num_threads;
  decltype(openblas_get_config)* get_config;
  decltype(openblas_get_corename)* get_corename;
  // OpenBLAS's internal packing buffers. Level 3 functions take one per call; freed ones stay mapped for the next call.
  void* (*take_buffer)(int purpose);
  void (*give_buffer)(void* buffer);
  void* handle;  // of dlopen; null if OpenBLAS is linked
};

// Address space that OpenBLAS maps for one packing buffer, at most: 32 to 128 MiB, by version and processor.
inline constexpr std::size_t kBufferBytes = std::size_t{128} << 20;

// OpenBLAS's name for kernels that suit this machine better than the `chosen` ones; null if there are none. OpenBLAS
// falls back to Prescott's SSE3 kernels on a processor newer than itself, at a sixth of the rate of its AVX-512
// kernels.
const char* better_core(std::string_view chosen, std::span<const InstructionSet> available);

// True if the process can map `bytes` more. Check this before OpenBLAS maps: it retries a failed mapping forever.
bool can_map(std::size_t bytes) noexcept;

// Thread-safe. Throws Error(out_of_memory) if OpenBLAS cannot be loaded for lack of memory, Error(unsupported) if it is
// not found. A later call tries again. Loads OpenBLAS with better_core() unless OPENBLAS_CORETYPE is set.
const BlasLibrary& blas_library();

}  // namespace strobe::blas
