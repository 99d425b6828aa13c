// Implements the functions of blas_library.h that do not call OpenBLAS: chooses its kernels, checks the address space.
#include "device/host/blas_library.h"

#include <sys/mman.h>

#include <algorithm>

namespace strobe::blas {

const char* better_core(std::string_view chosen, std::span<const InstructionSet> available) {
  if (chosen != "Prescott") return nullptr;
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(available, [&](const InstructionSet& one) { return one.available && name == one.name; });
  };
  return has("avx512") ? "SkylakeX" : has("avx2") ? "Haswell" : nullptr;
}

bool can_map(std::size_t bytes) noexcept {
  if (bytes == 0) return true;
  void* const probe = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED) return false;
  munmap(probe, bytes);
  return true;
}

}  // namespace strobe::blas
