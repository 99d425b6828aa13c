// Where cuDNN is looked for: STROBE_CUDNN, the system's search path, and where CMake found it.
#include "bench/cudnn/library.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "core/fail.h"

// Read by cudnn-frontend, which calls cuDNN through it alone (NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING).
namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace strobe::bench {
namespace {

constexpr int kCudaMajor = CUDART_VERSION / 1000;

// The first of the files that can be opened; it stays open.
void* open_first(const std::vector<std::string>& files, const std::string& advice) {
  std::string reasons;
  for (const std::string& file : files) {
    if (file.empty()) continue;
    if (void* const opened = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return opened;
    reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", dlerror());
  }
  fail(ErrorCode::unsupported, "cudnn: {}: {}", advice, reasons);
}

void* open_cudnn() {
  const char* named = std::getenv("STROBE_CUDNN");
  const char* advice = "no library; install cuDNN 9, or name its libcudnn.so.9 with STROBE_CUDNN";
  if (named && *named) return open_first({named}, advice);
  return open_first({"libcudnn.so.9", STROBE_CUDNN_LIBRARY}, advice);
}

// cudnn-frontend calls the CUDA runtime too and opens it by its short name. That finds what is open already, also where
// the toolkit lies outside of the system's search path.
void open_cuda_runtime() {
  const std::string name = fmt::format("libcudart.so.{}", kCudaMajor);
  open_first({name, fmt::format("{}/{}", STROBE_CUDA_LIBRARY_DIR, name)}, "no CUDA runtime as a shared library");
}

template <class Function>
Function* symbol(void* library, const char* name) {
  if (void* const found = dlsym(library, name)) return reinterpret_cast<Function*>(found);
  fail(ErrorCode::unsupported, "cudnn: its library has no {}", name);
}

std::string version_text(std::size_t version) {  // 10000 major + 100 minor + patch, from cuDNN 9 on
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

CudnnLibrary open_library() {
  void* const library = open_cudnn();
  const std::size_t version = symbol<decltype(cudnnGetVersion)>(library, "cudnnGetVersion")();
  if (version < 90000) fail(ErrorCode::unsupported, "cudnn: version {}; 9.0.0 or later is needed", version);
  open_cuda_runtime();
  cudnnHandle_t handle = nullptr;
  const cudnnStatus_t status = symbol<decltype(cudnnCreate)>(library, "cudnnCreate")(&handle);
  if (status != CUDNN_STATUS_SUCCESS) {
    const auto text = symbol<decltype(cudnnGetErrorString)>(library, "cudnnGetErrorString");
    fail(ErrorCode::unsupported, "cudnn: version {} cannot use the GPU: {}", version_text(version), text(status));
  }
  cudnn_frontend::cudnn_dlhandle = library;
  return {handle, version_text(version)};
}

}  // namespace

const CudnnLibrary& cudnn_library() {
  static const CudnnLibrary library = open_library();  // tried anew where it has thrown
  return library;
}

}  // namespace strobe::bench
