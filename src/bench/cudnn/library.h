// Loads libcudnn at the first use, so that the program also runs on machines without it.
#pragma once

#include <cudnn.h>

#include <string>

namespace strobe::bench {

struct CudnnLibrary {
  cudnnHandle_t handle;  // for the current GPU; lives as long as the process
  std::string version;   // "9.19.0"
};

// Returns the loaded library. Throws Error(unsupported) if libcudnn, a shared CUDA runtime or a GPU that cuDNN supports
// is missing.
const CudnnLibrary& cudnn_library();

}  // namespace strobe::bench
