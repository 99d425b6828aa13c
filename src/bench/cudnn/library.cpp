// Loads cuDNN: from the path in STROBE_CUDNN, else from the loader's search path or the folder where CMake found it.
#include "bench/cudnn/library.h"

#include <cuda_runtime_api.h>

#include "core/fail.h"
#include "device/shared_library.h"

// cudnn-frontend calls cuDNN only through this handle (NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING).
namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace strobe::bench {
namespace {

constexpr int kCudaMajor = CUDART_VERSION / 1000;

// Loads the CUDA runtime. cudnn-frontend loads it later by its short name, which finds a library that is already loaded
// even if the toolkit is outside the loader's search path.
void open_cuda_runtime() {
  const std::string file = fmt::format("libcudart.so.{}", kCudaMajor);
  SharedLibrary({.files = {file, fmt::format("{}/{}", STROBE_CUDA_LIBRARY_DIR, file)},
                 .advice = "cudnn: libcudart.so not found"});
}

std::string version_text(std::size_t version) {  // 10000 major + 100 minor + patch, since cuDNN 9
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

CudnnLibrary open_library() {
  const SharedLibrary library({.files = {"libcudnn.so.9", STROBE_CUDNN_LIBRARY},
                               .advice = "cudnn: not found; install cuDNN 9, or set STROBE_CUDNN to its libcudnn.so.9",
                               .variable = "STROBE_CUDNN"});
  decltype(cudnnGetVersion)* const get_version = library.function("cudnnGetVersion");
  const std::size_t version = get_version();
  if (version < 90000) fail(ErrorCode::unsupported, "cudnn: version {}; 9.0.0 or later is needed", version);
  open_cuda_runtime();
  cudnnHandle_t handle = nullptr;
  decltype(cudnnCreate)* const create = library.function("cudnnCreate");
  const cudnnStatus_t status = create(&handle);
  if (status != CUDNN_STATUS_SUCCESS) {
    decltype(cudnnGetErrorString)* const text = library.function("cudnnGetErrorString");
    fail(ErrorCode::unsupported, "cudnn: version {} cannot use the GPU: {}", version_text(version), text(status));
  }
  cudnn_frontend::cudnn_dlhandle = library.handle();
  return {handle, version_text(version)};
}

}  // namespace

const CudnnLibrary& cudnn_library() {
  static const CudnnLibrary library = open_library();  // if it throws, the next call tries again
  return library;
}

}  // namespace strobe::bench
