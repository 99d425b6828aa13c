// Implements blas_library() with OpenBLAS. Where the library is loaded at run time, its kernels are chosen to suit the
// processor and it starts no threads.
#include "device/host/blas_library.h"

#include <dlfcn.h>
#include <sched.h>

#include <cstdlib>

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
  return {cblas_sgemm,
          cblas_dgemm,
          openblas_get_num_threads,
          openblas_set_num_threads,
          openblas_get_config,
          openblas_get_corename,
          blas_memory_alloc,
          blas_memory_free,
          nullptr,
          kBufferBytes};
}

#else

constexpr const char* kCoreVariable = "OPENBLAS_CORETYPE";

// Restricts the calling thread to one core. OpenBLAS starts a thread per visible core when it is loaded. Strobe uses
// none of them, and a thread without memory for its buffer spins forever.
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

BlasLibrary load() {
  const SharedLibrary library(
      {.files = {STROBE_OPENBLAS, "libopenblas.so.0"}, .advice = "OpenBLAS cannot be opened; install libopenblas0"});
  return {library.function("cblas_sgemm"),
          library.function("cblas_dgemm"),
          library.function("openblas_get_num_threads"),
          library.function("openblas_set_num_threads"),
          library.function("openblas_get_config"),
          library.function("openblas_get_corename"),
          library.function("blas_memory_alloc"),
          library.function("blas_memory_free"),
          library.handle(),
          kBufferBytes};
}

BlasLibrary open_library() {
  if (!can_map(kBufferBytes)) {
    fail(ErrorCode::out_of_memory, "memory: cannot map {} MiB to load OpenBLAS", kBufferBytes >> 20);
  }
  const OneCore one;
  const BlasLibrary found = load();
  const char* const better = better_core(found.get_corename(), instruction_sets());
  if (!better || std::getenv(kCoreVariable)) return found;
  // OpenBLAS reads the variable when it is loaded. If other code holds the library open, dlclose() does not unload it,
  // and the kernels stay the same.
  dlclose(found.handle);
  setenv(kCoreVariable, better, 0);
  const BlasLibrary again = load();
  unsetenv(kCoreVariable);
  return again;
}

#endif

}  // namespace

const BlasLibrary& blas_library() {
  static const BlasLibrary library = open_library();
  return library;
}

std::string_view gemm_name() { return "OpenBLAS sgemm"; }

}  // namespace strobe::blas
