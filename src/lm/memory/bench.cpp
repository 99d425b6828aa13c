#include "lm/memory/bench.h"

#include "device/device_info.h"
#include "device/gpu_allocator.h"
#include "device/host/allocator.h"
#include "lm/plan/predicted_memory.h"

namespace strobe::lm {

namespace {

constexpr auto kParameters = PassRun::Parameters::zero;

}  // namespace

std::size_t residual_bytes(const BenchCase& one) {
  return static_cast<std::size_t>(one.batch * one.shape.context * one.shape.d_model) * size_of(dtype_of(one.precision));
}

MemoryFigures measure_memory(const BenchCase& one) {
  const bool on_gpu = one.place.device == Device::cuda;
  if (on_gpu) PassRun(one, kParameters).run();
  MemoryFigures figures;
  figures.predicted = predicted_bytes(one);
  const std::size_t free = on_gpu ? current_gpu_info().memory_free_bytes : 0;
  AllocationCounter& counter = on_gpu ? static_cast<AllocationCounter&>(gpu_allocator()) : host_allocator();
  counter.reset_peak();
  const std::size_t before = counter.statistics().current;
  MemoryRecorder recorder(counter);
  PassRun pass(one, kParameters);
  recorder.watch(pass.model());
  pass.run();
  figures.timeline = recorder.finish();
  figures.counted = counter.statistics().peak - before;
  const std::size_t left = on_gpu ? current_gpu_info().memory_free_bytes : 0;
  if (left < free) figures.driver = free - left;  // or another process gave back more
  return figures;
}

}  // namespace strobe::lm
