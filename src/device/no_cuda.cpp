// Stands in for cuda/ in a build without CUDA: the same functions, each with the reason why not.
#include "core/fail.h"
#include "device/device_info.h"
#include "device/gpu_buffer.h"

namespace strobe {

namespace {

constexpr const char* kReason = "this build has no CUDA, and this version no CUDA kernels yet";

[[noreturn]] void refuse() { fail(ErrorCode::unsupported, "cuda: {}", kReason); }

}  // namespace

GpuInventory gpu_inventory() { return {.compiled_in = false, .reason = kReason, .gpus = {}}; }

GpuBuffer::GpuBuffer(std::size_t) { refuse(); }
GpuBuffer::~GpuBuffer() = default;
void GpuBuffer::copy_from_host(const void*, std::size_t) { refuse(); }
void GpuBuffer::copy_to_host(void*, std::size_t) const { refuse(); }
void GpuBuffer::fill(std::uint32_t) { refuse(); }

}  // namespace strobe
