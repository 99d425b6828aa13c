// Implements SharedLibrary with dlopen and dlsym.
#include "device/shared_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string_view>

#include "core/fail.h"

namespace strobe {

namespace {

// Returns true if the loader failed for lack of memory. Reads its message, because the loader reports the reason only
// as text.
bool is_out_of_memory(std::string_view reason) {
  for (const std::string_view text : {"annot allocate memory", "out of memory", "failed to map segment"}) {
    if (reason.find(text) != reason.npos) return true;
  }
  return false;
}

}  // namespace

SharedLibrary::SharedLibrary(const LibraryFiles& where) {
  const char* const named = where.variable ? std::getenv(where.variable) : nullptr;
  std::string reasons;
  bool out_of_memory = false;
  for (const std::string& file : named&&* named ? std::vector<std::string>{named} : where.files) {
    if (file.empty()) continue;
    file_ = file;
    handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_) return;
    const char* const reason = dlerror();
    out_of_memory = out_of_memory || !reason || is_out_of_memory(reason);
    reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", reason ? reason : "out of memory");
  }
  fail(out_of_memory ? ErrorCode::out_of_memory : ErrorCode::unsupported, "{}: {}", where.advice, reasons);
}

SharedLibrary::Address SharedLibrary::function(const char* name) const {
  if (void* const found = dlsym(handle_, name)) return Address(found);
  fail(ErrorCode::unsupported, "{} does not have the function {}", file_, name);
}

#ifdef STROBE_CUBLAS_DIR  // a build with CUDA
LibraryFiles toolkit_library(const char* name, int major) {
  const std::string file = fmt::format("lib{}.so.{}", name, major);
  return {.files = {file, fmt::format("{}/{}", STROBE_CUBLAS_DIR, file)},
          .advice =
              fmt::format("cuda: cannot load {}; install the CUDA toolkit or put its folder in LD_LIBRARY_PATH", file)};
}
#endif

}  // namespace strobe
