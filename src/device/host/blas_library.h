// The OpenBLAS functions that Strobe calls. The first call that needs a shared OpenBLAS loads the library. Strobe does
// not link it, because its start-up code allocates memory and never returns if that fails.
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
  // Take and release OpenBLAS's internal packing buffers. Level 3 functions take one per call. Released ones stay
  // mapped for later calls.
  void* (*take_buffer)(int purpose);
  void (*give_buffer)(void* buffer);
  void* handle;              // from dlopen; null if OpenBLAS is linked
  std::size_t buffer_bytes;  // address space per packing buffer, at most; 0 without OpenBLAS
};

// Upper bound of the address space that OpenBLAS maps per packing buffer: 32 to 128 MiB, depending on version and
// processor.
inline constexpr std::size_t kBufferBytes = std::size_t{128} << 20;

// Returns OpenBLAS's name for kernels that are better on this machine than the `chosen` ones, or null if there are
// none. On a processor newer than itself, OpenBLAS falls back to Prescott's SSE3 kernels, at a sixth of the rate of its
// AVX-512 kernels.
const char* better_core(std::string_view chosen, std::span<const InstructionSet> available);

// Returns true if the process can map `bytes` more bytes. Check this before OpenBLAS maps memory, because it retries a
// failed mapping forever.
bool can_map(std::size_t bytes) noexcept;

// Returns OpenBLAS, which the first call loads, with the kernels of better_core() unless OPENBLAS_CORETYPE is set.
// Thread-safe. Throws Error(out_of_memory) if OpenBLAS cannot be loaded for lack of memory, Error(unsupported) if it is
// not found. A later call tries again.
const BlasLibrary& blas_library();

// Name of the matmul behind blas_library(), such as "OpenBLAS sgemm". Does not open a library.
std::string_view gemm_name();

}  // namespace strobe::blas
