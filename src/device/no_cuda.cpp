// Stubs of cuda/ for builds without CUDA. Queries report no GPU; the other functions throw or do nothing.
#include "core/fail.h"
#include "device/device_info.h"
#include "device/gpu_allocator.h"
#include "device/gpu_buffer.h"
#include "device/gpu_facts.h"
#include "device/gpu_stream.h"
#include "device/gpu_work.h"

namespace strobe {

namespace {

constexpr const char* kReason =
    "this build has no CUDA (STROBE_CUDA=on ./strobe builds with CUDA if nvcc is installed)";

[[noreturn]] void refuse() { fail(ErrorCode::unsupported, "cuda: {}", kReason); }

}  // namespace

GpuInventory gpu_inventory() { return {.compiled_in = false, .reason = kReason, .gpus = {}}; }

int gpu_count() { return 0; }
void use_gpu(int) { refuse(); }

CurrentGpu current_gpu() { return {.reason = kReason, .index = 0, .facts = {}}; }

void* GpuAllocator::allocate(std::size_t, const char*) { refuse(); }
void GpuAllocator::free(void*, std::size_t) noexcept {}
GpuAllocator& gpu_allocator() {
  static auto* const allocator = new GpuAllocator;
  return *allocator;
}

GpuBuffer::GpuBuffer(std::size_t, const char*) { refuse(); }
GpuBuffer::~GpuBuffer() = default;
void GpuBuffer::copy_from_host(const void*, std::size_t) { refuse(); }
void GpuBuffer::copy_to_host(void*, std::size_t) const { refuse(); }
void GpuBuffer::fill(std::uint32_t) { refuse(); }
void GpuBuffer::fill(std::uint32_t, const GpuStream&) { refuse(); }

PinnedBuffer::PinnedBuffer(std::size_t) { refuse(); }
PinnedBuffer::~PinnedBuffer() = default;

GpuStream::GpuStream(Priority) { refuse(); }
GpuStream::~GpuStream() = default;
void GpuStream::synchronize() const { refuse(); }
void GpuStream::wait_for(const GpuEvent&) const { refuse(); }
void GpuStream::copy(void*, const void*, std::size_t) const { refuse(); }
void GpuStream::clear(void*, std::size_t) const { refuse(); }

GpuEvent::GpuEvent() { refuse(); }
GpuEvent::~GpuEvent() = default;
void GpuEvent::record(const GpuStream&) { refuse(); }
void GpuEvent::synchronize() const { refuse(); }
double GpuEvent::seconds_since(const GpuEvent&) const { refuse(); }

GpuGraph::GpuGraph(const GpuStream&, const std::function<void()>&) { refuse(); }
GpuGraph::~GpuGraph() = default;
void GpuGraph::launch(const GpuStream&) const { refuse(); }

void begin_gpu_work() {}
void clear_on_gpu(const GpuElements&, void*) { refuse(); }

}  // namespace strobe
