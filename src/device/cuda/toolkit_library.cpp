#include "device/cuda/toolkit_library.h"

#include "core/fail.h"

namespace strobe::cuda {

SharedLibrary open_toolkit_library(const char* name, int major) {
  const std::string file = fmt::format("lib{}.so.{}", name, major);
  const std::string files[] = {file, fmt::format("{}/{}", STROBE_CUBLAS_DIR, file)};
  return SharedLibrary(files,
                       fmt::format("cuda: no {}; install the toolkit's, or put its folder in LD_LIBRARY_PATH", file));
}

}  // namespace strobe::cuda
