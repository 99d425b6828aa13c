#include "device/host/blas_library.h"

#include <sched.h>
#include <sys/mman.h>

#include "core/fail.h"
#include "device/shared_library.h"

#ifdef STROBE_OPENBLAS_LINKED  // a static OpenBLAS; its header does not declare these
extern "C" {
void* blas_memory_alloc(int purpose);
void blas_memory_free(void* buffer);
}
#endif

namespace strobe::blas {
namespace {

#ifdef STROBE_OPENBLAS_LINKED

BlasLibrary open_library() {
  return {cblas_sgemm,         cblas_dgemm,           openblas_get_num_threads, openblas_set_num_threads,
          openblas_get_config, openblas_get_corename, blas_memory_alloc,        blas_memory_free};
}

#else

// Restricts the calling thread to one core. OpenBLAS starts a thread for every core it sees when it is loaded. Strobe
// uses none of them, and one that finds no memory for its buffer spins forever.
class OneCore {
 public:
  OneCore() {
    if (sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    const int core = sched_getcpu();
    if (core < 0 || core >= CPU_SETSIZE) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    restricted_ = sched_setaffinity(0, sizeof one, &one) == 0;
  }
  ~OneCore() {
    if (restricted_) sched_setaffinity(0, sizeof before_, &before_);
  }
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;

 private:
  cpu_set_t before_;
  bool restricted_ = false;
};

BlasLibrary open_library() {
  if (!can_map(kBufferBytes)) {
    fail(ErrorCode::out_of_memory, "memory: cannot map {} MiB to load OpenBLAS", kBufferBytes >> 20);
  }
  const OneCore one;
  const SharedLibrary library(
      {.files = {STROBE_OPENBLAS, "libopenblas.so.0"}, .advice = "OpenBLAS cannot be opened; install libopenblas0"});
  return {library.function("cblas_sgemm"),
          library.function("cblas_dgemm"),
          library.function("openblas_get_num_threads"),
          library.function("openblas_set_num_threads"),
          library.function("openblas_get_config"),
          library.function("openblas_get_corename"),
          library.function("blas_memory_alloc"),
          library.function("blas_memory_free")};
}

#endif

}  // namespace

bool can_map(std::size_t bytes) noexcept {
  void* const probe = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED) return false;
  munmap(probe, bytes);
  return true;
}

const BlasLibrary& blas_library() {
  static const BlasLibrary library = open_library();
  return library;
}

}  // namespace strobe::blas
