// Rungs `one-stream`, `four-streams` and `pinned`: three ways to queue copies and the kernel of `fast-math`.
//
// One stream: copies and the kernel are queued in order, and the host waits once.
// Four streams: Q, K, V and O are copied on one stream each, and kernels run on a fifth; events order them. Batches are
// processed in chunks, so that chunk 2 is copied while chunk 1 is computed. Copies from pageable memory go through a
// staging buffer of the driver, and the call returns only when the buffer is filled. So copies and kernels hardly
// overlap.
// Pinned: host memory is page-locked and the GPU's DMA engines access it directly. Copies overlap with kernels and with
// copies in the other direction. Page-locking is slow; its time is reported separately.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "core/clock.h"
#include "lab/cuda/memory.h"
#include "lab/cuda/runs.h"

namespace strobe::lab {
namespace {

class Event {
 public:
  Event() { STROBE_CUDA_CHECK(cudaEventCreate(&event_)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) { STROBE_CUDA_CHECK(cudaEventRecord(event_, stream)); }
  void block(cudaStream_t stream) const { STROBE_CUDA_CHECK(cudaStreamWaitEvent(stream, event_, 0)); }
  double seconds_since(const Event& earlier) const {
    float milliseconds = 0;
    STROBE_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, earlier.event_, event_));
    return 1e-3 * milliseconds;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

struct ChunkEvents {
  Event q, k, v;                               // recorded after Q, K and V are copied to the GPU
  Event begun, computed, receiving, received;  // begin and end of the kernel; begin and end of the copy of O
};

// Streams of Q, K, V, O and the kernels: one stream for all, or five.
class StreamSet {
 public:
  explicit StreamSet(int count) : made_(count == 1 ? 1 : 5) {
    for (int i = 0; i < made_; ++i) STROBE_CUDA_CHECK(cudaStreamCreateWithFlags(&streams_[i], cudaStreamNonBlocking));
    for (int i = made_; i < 5; ++i) streams_[i] = streams_[0];
  }
  ~StreamSet() {
    for (int i = 0; i < made_; ++i) cudaStreamDestroy(streams_[i]);
  }
  StreamSet(const StreamSet&) = delete;
  StreamSet& operator=(const StreamSet&) = delete;

  cudaStream_t q() const { return streams_[0]; }
  cudaStream_t k() const { return streams_[1]; }
  cudaStream_t v() const { return streams_[2]; }
  cudaStream_t o() const { return streams_[3]; }
  cudaStream_t kernels() const { return streams_[4]; }

 private:
  int made_;
  cudaStream_t streams_[5] = {};
};

struct FreePinned {
  void operator()(float* data) const { cudaFreeHost(data); }
};
using PinnedFloats = std::unique_ptr<float, FreePinned>;

// Page-locked copies of the caller's inputs, and page-locked memory for the output.
class PinnedMemory {
 public:
  explicit PinnedMemory(const RungProblem& problem)
      : bytes_(static_cast<std::size_t>(problem.elements()) * sizeof(float)),
        q_(copy_of(problem.q)),
        k_(copy_of(problem.k)),
        v_(copy_of(problem.v)),
        o_(allocate()) {}

  RungProblem inputs_of(RungProblem problem) const {
    problem.q = q_.get();
    problem.k = k_.get();
    problem.v = v_.get();
    return problem;
  }
  float* o() const { return o_.get(); }
  void copy_output(float* to) const { std::memcpy(to, o_.get(), bytes_); }

 private:
  PinnedFloats allocate() const {
    void* data = nullptr;
    STROBE_CUDA_CHECK(cudaMallocHost(&data, bytes_));
    return PinnedFloats(static_cast<float*>(data));
  }
  PinnedFloats copy_of(const float* values) const {
    PinnedFloats copy = allocate();
    std::memcpy(copy.get(), values, bytes_);
    return copy;
  }

  std::size_t bytes_;
  PinnedFloats q_, k_, v_, o_;
};

}  // namespace

Split run_on_streams(const RungProblem& caller, float* caller_o, const Streams& options,
                     const std::function<Launches(const Tensors&, cudaStream_t)>& launch) {
  Split split;
  double start = now_seconds();
  const auto lap = [&] {
    const double now = now_seconds(), passed = now - start;
    start = now;
    return passed;
  };
  const Memory memory(caller, options.layout);
  STROBE_CUDA_CHECK(cudaDeviceSynchronize());
  split.allocate = lap();
  const int chunks = options.count == 1 ? 1 : std::min(caller.batch, kMostChunks);
  const StreamSet streams(options.count);
  Event begin;
  std::vector<ChunkEvents> events(static_cast<std::size_t>(chunks));
  split.create = lap();
  std::optional<PinnedMemory> pinned;
  if (options.pinned) {
    pinned.emplace(caller);
    split.pin = lap();
  }
  const RungProblem problem = pinned ? pinned->inputs_of(caller) : caller;
  float* const o = pinned ? pinned->o() : caller_o;

  lap();
  begin.record(streams.q());
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const auto batch_of = [&](int c) { return static_cast<int>(std::int64_t{caller.batch} * c / chunks); };
    const int first = batch_of(chunk), batches = batch_of(chunk + 1) - first;
    ChunkEvents& event = events[static_cast<std::size_t>(chunk)];
    memory.send_q(problem.q, first, batches, streams.q());
    event.q.record(streams.q());
    memory.send_k(problem.k, first, batches, streams.k());
    event.k.record(streams.k());
    memory.send_v(problem.v, first, batches, streams.v());
    event.v.record(streams.v());
    for (const Event* arrived : {&event.q, &event.k, &event.v}) arrived->block(streams.kernels());
    event.begun.record(streams.kernels());
    const Launches launches = launch(memory.tensors(first, batches), streams.kernels());
    split.launches = {split.launches.count + launches.count, launches.shared_bytes};
    event.computed.record(streams.kernels());
    event.computed.block(streams.o());
    event.receiving.record(streams.o());
    memory.receive(o, first, batches, streams.o());
    event.received.record(streams.o());
  }
  STROBE_CUDA_CHECK(cudaDeviceSynchronize());
  split.total = lap();
  for (const Event* last : {&events.back().q, &events.back().k, &events.back().v}) {
    split.to_device = std::max(split.to_device, last->seconds_since(begin));
  }
  for (const ChunkEvents& event : events) {
    split.kernel += event.computed.seconds_since(event.begun);
    split.to_host += event.received.seconds_since(event.receiving);
  }
  if (pinned) pinned->copy_output(caller_o);
  return split;
}

Split run_one_stream(const RungProblem& problem, float* o) {
  return run_on_streams(problem, o, {.count = 1}, launch_fast_math);
}

Split run_four_streams(const RungProblem& problem, float* o) {
  return run_on_streams(problem, o, {.count = 4}, launch_fast_math);
}

Split run_pinned(const RungProblem& problem, float* o) {
  return run_on_streams(problem, o, {.count = 4, .pinned = true}, launch_fast_math);
}

}  // namespace strobe::lab
