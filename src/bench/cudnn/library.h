// libcudnn, opened when it is first needed: the program starts and works without it.
#pragma once

#include <cudnn.h>

#include <string>

namespace strobe::bench {

struct CudnnLibrary {
  cudnnHandle_t handle;  // for the current GPU; lives as long as the process
  std::string version;   // "9.19.0"
};

// Throws Error(unsupported) where there is no libcudnn, no CUDA runtime for cudnn-frontend to open, or no GPU for it.
const CudnnLibrary& cudnn_library();

}  // namespace strobe::bench
