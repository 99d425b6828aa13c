// Where cuDNN is looked for: STROBE_CUDNN, the system's search path, and where CMake found it.
#include "bench/cudnn/library.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <vector>

#include "core/fail.h"
#include "device/shared_library.h"

// Read by cudnn-frontend, which calls cuDNN through it alone (NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING).
namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace strobe::bench {
namespace {

constexpr int kCudaMajor = CUDART_VERSION / 1000;

SharedLibrary open_cudnn() {
  const char* const named = std::getenv("STROBE_CUDNN");
  std::vector<std::string> files = {"libcudnn.so.9", STROBE_CUDNN_LIBRARY};
  if (named && *named) files = {named};
  return SharedLibrary(files, "cudnn: no library; install cuDNN 9, or name its libcudnn.so.9 with STROBE_CUDNN");
}

// cudnn-frontend calls the CUDA runtime too and opens it by its short name. That finds what is open already, also where
// the toolkit lies outside of the system's search path.
void open_cuda_runtime() {
  const std::string name = fmt::format("libcudart.so.{}", kCudaMajor);
  const std::string files[] = {name, fmt::format("{}/{}", STROBE_CUDA_LIBRARY_DIR, name)};
  SharedLibrary(files, "cudnn: no CUDA runtime as a shared library");
}

template <class Function>
Function* symbol(const SharedLibrary& library, const char* name) {
  Function* found = nullptr;
  library.find(name, found);
  return found;
}

std::string version_text(std::size_t version) {  // 10000 major + 100 minor + patch, from cuDNN 9 on
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

CudnnLibrary open_library() {
  const SharedLibrary library = open_cudnn();
  const std::size_t version = symbol<decltype(cudnnGetVersion)>(library, "cudnnGetVersion")();
  if (version < 90000) fail(ErrorCode::unsupported, "cudnn: version {}; 9.0.0 or later is needed", version);
  open_cuda_runtime();
  cudnnHandle_t handle = nullptr;
  const cudnnStatus_t status = symbol<decltype(cudnnCreate)>(library, "cudnnCreate")(&handle);
  if (status != CUDNN_STATUS_SUCCESS) {
    const auto text = symbol<decltype(cudnnGetErrorString)>(library, "cudnnGetErrorString");
    fail(ErrorCode::unsupported, "cudnn: version {} cannot use the GPU: {}", version_text(version), text(status));
  }
  cudnn_frontend::cudnn_dlhandle = library.handle();
  return {handle, version_text(version)};
}

}  // namespace

const CudnnLibrary& cudnn_library() {
  static const CudnnLibrary library = open_library();  // tried anew where it has thrown
  return library;
}

}  // namespace strobe::bench
