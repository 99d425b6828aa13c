// Measures the copy rate of the current GPU and the overhead of timing with its events. In a build without CUDA the
// functions throw.
#include <algorithm>
#include <cstdint>

#include "core/statistics.h"
#include "device/gpu_buffer.h"
#include "device/gpu_stream.h"
#include "measure/rates.h"

namespace strobe {

double gpu_copy_rate() {
  constexpr std::size_t kBytes = std::size_t{1} << 31;
  const GpuStream stream;
  GpuBuffer from(kBytes), to(kBytes);
  from.fill(0x3f803f81u, stream);
  GpuEvent begin, end;
  double best = 0;
  for (int run = 0; run < 20; ++run) {
    begin.record(stream);
    stream.copy(to.data(), from.data(), kBytes);
    end.record(stream);
    end.synchronize();
    best = std::max(best, 2 * static_cast<double>(kBytes) / end.seconds_since(begin));
  }
  return best;
}

double gpu_timed_small_fill() {
  const GpuStream stream;
  GpuBuffer word(sizeof(std::uint32_t));
  GpuEvent begin, end;
  double samples[101];
  for (double& sample : samples) {
    begin.record(stream);
    word.fill(0, stream);
    end.record(stream);
    end.synchronize();
    sample = end.seconds_since(begin);
  }
  return summarize(samples).median;
}

}  // namespace strobe
