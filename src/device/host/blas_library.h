// OpenBLAS's functions. The first call that needs a shared OpenBLAS opens it. It is not linked: its start-up code
// allocates memory and never returns on failure. A build with STROBE_OPENBLAS=OFF has the matmuls of no_openblas.cpp
// behind the same functions.
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
  void* handle;              // from dlopen; null if OpenBLAS is linked
  std::size_t buffer_bytes;  // address space per packing buffer, at most; 0 without OpenBLAS
};

// Address space that OpenBLAS maps per packing buffer, at most: 32 to 128 MiB, by version and processor.
inline constexpr std::size_t kBufferBytes = std::size_t{128} << 20;

// Returns OpenBLAS's name for better kernels than the `chosen` ones on this machine; null if none exist. On a processor
// newer than itself, OpenBLAS falls back to Prescott's SSE3 kernels, at a sixth of the rate of its AVX-512 kernels.
const char* better_core(std::string_view chosen, std::span<const InstructionSet> available);

// True if the process can map `bytes` more. Check before OpenBLAS maps: it retries a failed mapping forever.
bool can_map(std::size_t bytes) noexcept;

// Thread-safe. Throws Error(out_of_memory) if OpenBLAS cannot be loaded for lack of memory, Error(unsupported) if it is
// not found. A later call tries again. Loads OpenBLAS with better_core() unless OPENBLAS_CORETYPE is set.
const BlasLibrary& blas_library();

// Name of the matmul behind blas_library(), such as "OpenBLAS sgemm". Does not open a library.
std::string_view gemm_name();

}  // namespace strobe::blas
