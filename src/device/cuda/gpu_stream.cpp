// Implements GpuStream, GpuEvent and GpuGraph with the CUDA runtime.
#include "device/gpu_stream.h"

#include "device/cuda/check.h"

namespace strobe {

namespace {

cudaStream_t stream_of(const GpuStream& stream) { return static_cast<cudaStream_t>(stream.handle()); }
cudaEvent_t event_of(void* handle) { return static_cast<cudaEvent_t>(handle); }

}  // namespace

GpuStream::GpuStream(Priority priority) {
  cudaStream_t created = nullptr;
  int least = 0, greatest = 0;
  STROBE_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  STROBE_CUDA_CHECK(
      cudaStreamCreateWithPriority(&created, cudaStreamNonBlocking, priority == Priority::first ? greatest : least));
  handle_ = created;
}

GpuStream::~GpuStream() {
  if (handle_) cudaStreamDestroy(stream_of(*this));
}

void GpuStream::synchronize() const { STROBE_CUDA_CHECK(cudaStreamSynchronize(stream_of(*this))); }

void GpuStream::wait_for(const GpuEvent& event) const {
  STROBE_CUDA_CHECK(cudaStreamWaitEvent(stream_of(*this), event_of(event.handle_), 0));
}

void GpuStream::copy(void* to, const void* from, std::size_t bytes) const {
  if (bytes) STROBE_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(*this)));
}

void GpuStream::clear(void* to, std::size_t bytes) const {
  if (bytes) STROBE_CUDA_CHECK(cudaMemsetAsync(to, 0, bytes, stream_of(*this)));
}

GpuEvent::GpuEvent() {
  cudaEvent_t created = nullptr;
  STROBE_CUDA_CHECK(cudaEventCreate(&created));
  handle_ = created;
}

GpuEvent::~GpuEvent() {
  if (handle_) cudaEventDestroy(event_of(handle_));
}

void GpuEvent::record(const GpuStream& stream) {
  STROBE_CUDA_CHECK(cudaEventRecord(event_of(handle_), stream_of(stream)));
}

void GpuEvent::synchronize() const { STROBE_CUDA_CHECK(cudaEventSynchronize(event_of(handle_))); }

double GpuEvent::seconds_since(const GpuEvent& earlier) const {
  float milliseconds = 0;
  STROBE_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, event_of(earlier.handle_), event_of(handle_)));
  return milliseconds / 1000.0;
}

GpuGraph::GpuGraph(const GpuStream& stream, const std::function<void()>& record) {
  STROBE_CUDA_CHECK(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal));
  cudaGraph_t graph = nullptr;
  try {
    record();
  } catch (...) {
    cudaStreamEndCapture(stream_of(stream), &graph);
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  STROBE_CUDA_CHECK(cudaStreamEndCapture(stream_of(stream), &graph));
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&executable, graph, cudaGraphInstantiateFlagUseNodePriority);
  cudaGraphDestroy(graph);
  cuda::check(status, "cudaGraphInstantiate");
  executable_ = executable;
}

GpuGraph::~GpuGraph() {
  if (executable_) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(executable_));
}

void GpuGraph::launch(const GpuStream& stream) const {
  STROBE_CUDA_CHECK(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable_), stream_of(stream)));
}

}  // namespace strobe
