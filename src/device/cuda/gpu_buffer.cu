// Implements GpuBuffer and PinnedBuffer with the CUDA runtime.
#include <algorithm>
#include <string>

#include "device/cuda/check.h"
#include "device/gpu_allocator.h"
#include "device/gpu_buffer.h"
#include "device/gpu_stream.h"

namespace strobe {

namespace {

__global__ void fill_words(std::uint32_t* words, std::size_t count, std::uint32_t word) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    words[i] = word;
  }
}

void check_span(const char* what, std::size_t requested, std::size_t size) {
  if (requested <= size) return;
  throw Error(ErrorCode::invalid_argument, std::string("cuda: ") + what + " of " + std::to_string(requested) +
                                               " bytes, but the buffer holds " + std::to_string(size));
}

void fill_on(void* data, std::size_t bytes, std::uint32_t word, cudaStream_t stream) {
  if (bytes % 4 != 0) {
    throw Error(ErrorCode::invalid_argument,
                "cuda: fill of " + std::to_string(bytes) + " bytes; the size must be a multiple of 4");
  }
  const std::size_t count = bytes / 4;
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>(std::min<std::size_t>((count + 255) / 256, 4096));
  fill_words<<<blocks, 256, 0, stream>>>(static_cast<std::uint32_t*>(data), count, word);
  cuda::check_launch("fill_words");
}

}  // namespace

GpuBuffer::GpuBuffer(std::size_t bytes, const char* tag) : data_(gpu_allocator().allocate(bytes, tag)), bytes_(bytes) {}

// Does not call gpu_allocator() for an empty buffer. The first call of that function may throw, a destructor must not.
GpuBuffer::~GpuBuffer() {
  if (data_) gpu_allocator().free(data_, bytes_);
}

void GpuBuffer::copy_from_host(const void* source, std::size_t bytes) {
  check_span("copy", bytes, bytes_);
  if (bytes) STROBE_CUDA_CHECK(cudaMemcpy(data_, source, bytes, cudaMemcpyHostToDevice));
}

void GpuBuffer::copy_to_host(void* destination, std::size_t bytes) const {
  check_span("copy", bytes, bytes_);
  if (bytes) STROBE_CUDA_CHECK(cudaMemcpy(destination, data_, bytes, cudaMemcpyDeviceToHost));
}

void GpuBuffer::fill(std::uint32_t word) {
  fill_on(data_, bytes_, word, nullptr);
  STROBE_CUDA_CHECK(cudaDeviceSynchronize());
}

void GpuBuffer::fill(std::uint32_t word, const GpuStream& stream) {
  fill_on(data_, bytes_, word, static_cast<cudaStream_t>(stream.handle()));
}

PinnedBuffer::PinnedBuffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const cudaError_t status = cudaHostAlloc(&data_, bytes, cudaHostAllocDefault);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw Error(ErrorCode::out_of_memory, "cuda: cannot allocate " + std::to_string(bytes) + " bytes of pinned memory");
  }
  cuda::check(status, "cudaHostAlloc");
}

PinnedBuffer::~PinnedBuffer() {
  if (data_) cudaFreeHost(data_);
}

}  // namespace strobe
