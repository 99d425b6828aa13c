// Looks up the C functions of LibTorch's stable ABI (2.10) that torch.cpp calls, in the libtorch that the process has
// loaded. The build needs neither headers nor libraries of PyTorch.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace strobe_python {

using Handle = void*;  // AtenTensorHandle, TorchLibraryHandle, StringHandle, CUDAGuardHandle
using StableIValue = std::uint64_t;
using BoxedKernel = void (*)(StableIValue* stack, std::uint64_t arguments, std::uint64_t outputs);
using Status = std::int32_t;  // 0: success

template <class F>
F* find(const char* library, const char* name) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  void* const symbol = handle ? dlsym(handle, name) : nullptr;
  if (!symbol) {
    throw std::runtime_error(std::string("strobe_attention.torch: ") + library + " has no " + name +
                             "; valid: torch 2.10 or newer, imported first");
  }
  return reinterpret_cast<F*>(symbol);
}

template <class F>
F* find_cpu(const char* name) {
  return find<F>("libtorch_cpu.so", name);
}

struct TorchApi {
  template <class T>
  using Getter = Status(Handle, T*);

  Getter<void*>* data = find_cpu<Getter<void*>>("aoti_torch_get_data_ptr");
  Getter<std::int64_t>* dim = find_cpu<Getter<std::int64_t>>("aoti_torch_get_dim");
  Getter<std::int64_t>* numel = find_cpu<Getter<std::int64_t>>("aoti_torch_get_numel");
  Getter<std::int64_t*>* sizes = find_cpu<Getter<std::int64_t*>>("aoti_torch_get_sizes");
  Getter<std::int64_t*>* strides = find_cpu<Getter<std::int64_t*>>("aoti_torch_get_strides");
  Getter<std::int32_t>* dtype = find_cpu<Getter<std::int32_t>>("aoti_torch_get_dtype");
  Getter<std::int32_t>* device_type = find_cpu<Getter<std::int32_t>>("aoti_torch_get_device_type");
  Getter<std::int32_t>* device_index = find_cpu<Getter<std::int32_t>>("aoti_torch_get_device_index");
  Status (*empty_strided)(std::int64_t, const std::int64_t*, const std::int64_t*, std::int32_t, std::int32_t,
                          std::int32_t, Handle*) =
      find_cpu<Status(std::int64_t, const std::int64_t*, const std::int64_t*, std::int32_t, std::int32_t, std::int32_t,
                      Handle*)>("aoti_torch_empty_strided");
  Status (*release)(Handle) = find_cpu<Status(Handle)>("aoti_torch_delete_tensor_object");
  Status (*string_text)(Handle, const char**) = find_cpu<Status(Handle, const char**)>("torch_string_c_str");
  Status (*release_string)(Handle) = find_cpu<Status(Handle)>("torch_delete_string");
  Status (*threads)(std::uint32_t*) = find_cpu<Status(std::uint32_t*)>("torch_get_num_threads");
  std::int32_t fp32 = find_cpu<std::int32_t()>("aoti_torch_dtype_float32")();
  std::int32_t fp16 = find_cpu<std::int32_t()>("aoti_torch_dtype_float16")();
  std::int32_t bf16 = find_cpu<std::int32_t()>("aoti_torch_dtype_bfloat16")();
  std::int32_t int32 = find_cpu<std::int32_t()>("aoti_torch_dtype_int32")();
  std::int32_t int64 = find_cpu<std::int32_t()>("aoti_torch_dtype_int64")();
  std::int32_t uint8 = find_cpu<std::int32_t()>("aoti_torch_dtype_uint8")();
  std::int32_t cpu = find_cpu<std::int32_t()>("aoti_torch_device_type_cpu")();
  std::int32_t cuda = find_cpu<std::int32_t()>("aoti_torch_device_type_cuda")();

  static const TorchApi& get() {
    static const TorchApi api;
    return api;
  }
};

// Functions for CUDA, looked up at the first call with a CUDA tensor.
struct TorchCudaApi {
  Status (*stream)(std::int32_t, void**) = find<Status(std::int32_t, void**)>("libtorch_cuda.so",
                                                                              "aoti_torch_get_current_cuda_stream");
  Status (*take_guard)(std::int32_t, Handle*) = find<Status(std::int32_t, Handle*)>("libtorch_cuda.so",
                                                                                    "aoti_torch_create_cuda_guard");
  Status (*give_guard)(Handle) = find<Status(Handle)>("libtorch_cuda.so", "aoti_torch_delete_cuda_guard");

  static const TorchCudaApi& get() {
    static const TorchCudaApi api;
    return api;
  }
};

inline void check_torch(Status status) {
  if (status != 0) throw std::runtime_error("strobe_attention.torch: a call of LibTorch's stable ABI failed");
}

}  // namespace strobe_python
