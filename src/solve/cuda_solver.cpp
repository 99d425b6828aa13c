// Implements solve_on_cuda(): file -> pinned memory -> GPU -> kernel -> pinned memory -> file, with all five stages
// concurrent. Host-to-device copies, kernels and device-to-host copies have one stream each; events order the three
// operations of a chunk. Chunks are large enough to fill the GPU. Each direction has a few small pinned buffers, since
// allocating pinned memory is slow.
#include <algorithm>
#include <vector>

#include "core/clock.h"
#include "core/divide.h"
#include "core/fail.h"
#include "device/device_info.h"
#include "device/gpu_buffer.h"
#include "device/gpu_facts.h"
#include "device/gpu_stream.h"
#include "solve/pipeline.h"
#include "solve/solver.h"

namespace strobe::solve {
namespace {

constexpr std::int64_t kOnGpu = 3;                                                   // chunks on the GPU
constexpr std::int64_t kLeastChunk = 8 << 20, kMostChunk = 64 << 20;                 // bytes of input
constexpr std::int64_t kChunksOfFile = 8;                                            // target chunks per file
constexpr std::int64_t kTransfers = 4, kTransferFloats = (4 << 20) / sizeof(float);  // pinned buffers per direction

// A pinned staging buffer for copies between a file and the GPU. Holds part of a chunk.
struct Transfer {
  PinnedBuffer memory;
  GpuEvent begin, end;      // recorded before and after the copy
  bool is_pending = false;  // true: note() has not added the copy's time yet

  explicit Transfer(std::int64_t floats) : memory(static_cast<std::size_t>(floats) * sizeof(float)) {}
};

// GPU buffers and events of a chunk.
struct Slot {
  GpuBuffer inputs, outputs;
  GpuEvent loaded{}, kernel_begin{}, computed{};
};

struct Streams {
  GpuStream in, kernels, out;
  GpuEvent start;  // origin of all intervals

  Streams() {
    start.record(kernels);
    start.synchronize();
  }
};

std::size_t workspace_of(const Solver& solver, const ProblemSize& size, std::int64_t batches) {
  const Execution execution{.device = Device::cuda, .kernel = solver.kernel};
  return chunk_workspace(size, batches, execution);
}

// Returns the batches per chunk: as many as the constants above allow and fit in GPU memory together with the
// workspace.
std::int64_t choose_batches(const Solver& solver) {
  const ProblemSize& size = solver.problem.size();
  const std::int64_t input = 12 * size.elements();  // bytes per batch
  const std::int64_t wanted = std::clamp(12 * size.total() / kChunksOfFile, kLeastChunk, kMostChunk);
  std::int64_t batches = std::clamp<std::int64_t>(wanted / input, 1, size.batch);
  const GpuInventory inventory = gpu_inventory();
  const int index = current_gpu().index;
  const std::size_t free = inventory.gpus.at(static_cast<std::size_t>(index)).memory_free_bytes;
  for (;; batches = (batches + 1) / 2) {
    const std::int64_t slots = std::min(kOnGpu, ceil_div(size.batch, batches));
    const double needed =
        static_cast<double>(workspace_of(solver, size, batches)) +
        static_cast<double>(slots) * static_cast<double>(batches) * static_cast<double>(16 * size.elements());
    if (needed <= 0.95 * static_cast<double>(free)) return batches;
    if (batches == 1) {
      fail(ErrorCode::out_of_memory,
           "solve: one batch of {} rows x {} needs {:.0f} bytes of the GPU's memory; {} are free", size.rows, size.dim,
           needed, free);
    }
  }
}

// Returns the size of the warm-up launch, which makes CUDA load the kernel's code. The size is large enough that the
// library selects the same kernel as for chunks. The launch takes little time compared with creating a context.
ProblemSize warm_up_size(const ProblemSize& size, std::int64_t batches) {
  return {batches, std::min<std::int64_t>(size.rows, 2048), size.dim};
}

class CudaSolver {
 public:
  explicit CudaSolver(const Solver& solver)
      : solver_(solver),
        size_(solver.problem.size()),
        batches_(choose_batches(solver)),
        chunks_(ceil_div(size_.batch, batches_)) {
    const double begin = now_seconds();
    const std::int64_t elements = batches_ * size_.elements();  // elements of O
    workspace_ = GpuBuffer(
        std::max(workspace_of(solver, size_, batches_), workspace_of(solver, warm_up_size(size_, batches_), batches_)));
    for (std::int64_t i = 0; i < std::min(kOnGpu, chunks_); ++i) {
      slots_.push_back({.inputs = GpuBuffer(static_cast<std::size_t>(elements) * 12),
                        .outputs = GpuBuffer(static_cast<std::size_t>(elements) * 4)});
    }
    for (std::int64_t i = 0; i < kTransfers; ++i) {
      in_.emplace_back(std::min(kTransferFloats, 3 * elements));
      out_.emplace_back(std::min(kTransferFloats, elements));
    }
    times_.buffers = now_seconds() - begin;
    forward_on(slots_[0], warm_up_size(size_, batches_));
    streams_.kernels.synchronize();
  }

  StageTimes run() {
    const double begin = now_seconds();
    run_pipeline(chunks_, kOnGpu,
                 {.load = [this](std::int64_t c) { load(c); },
                  .compute = [this](std::int64_t c) { compute(c); },
                  .store = [this](std::int64_t c) { store(c); }});
    times_.total = times_.buffers + now_seconds() - begin;
    for (Transfer& transfer : in_) note(transfer, to_device_);
    times_.to_device = to_device_.sum();
    times_.kernel = kernel_.sum();
    times_.from_device = from_device_.sum();
    times_.busy = BusyTime::together({&to_device_, &kernel_, &from_device_});
    return times_;
  }

 private:
  std::int64_t first_batch(std::int64_t chunk) const { return chunk * batches_; }
  std::int64_t count(std::int64_t chunk) const { return std::min(batches_, size_.batch - first_batch(chunk)); }
  Slot& slot(std::int64_t chunk) { return slots_[static_cast<std::size_t>(chunk % kOnGpu)]; }

  double at(const GpuEvent& event) const { return event.seconds_since(streams_.start); }

  void forward_on(const Slot& slot, const ProblemSize& size) {
    forward(attention_of(size, size.batch, slot.inputs.as<float>()),
            outputs_of(size, size.batch, slot.outputs.as<float>()),
            {.device = Device::cuda,
             .kernel = solver_.kernel,
             .stream = streams_.kernels.handle(),
             .workspace = workspace_.data(),
             .workspace_bytes = workspace_.bytes()});
  }

  // Waits for the transfer's copy and adds its time to `stage`, unless this was done already.
  void note(Transfer& transfer, BusyTime& stage) {
    if (!transfer.is_pending) return;
    transfer.end.synchronize();
    stage.add(at(transfer.begin), at(transfer.end));
    transfer.is_pending = false;
  }

  void copy(Transfer& transfer, const GpuStream& stream, void* to, const void* from, std::int64_t floats) {
    transfer.begin.record(stream);
    stream.copy(to, from, static_cast<std::size_t>(floats) * sizeof(float));
    transfer.end.record(stream);
    transfer.is_pending = true;
  }

  // Queues the copies of a chunk's inputs. The pipeline calls it after the slot's previous result has been stored.
  void load(std::int64_t chunk) {
    const std::int64_t floats = 3 * count(chunk) * size_.elements();
    for (std::int64_t from = 0; from < floats; from += kTransferFloats) {
      Transfer& transfer = in_[next_in_++ % in_.size()];
      note(transfer, to_device_);
      const std::int64_t now = std::min(kTransferFloats, floats - from);
      const double begin = now_seconds();
      solver_.problem.read(first_batch(chunk), from, now, transfer.memory.as<float>());
      times_.read += now_seconds() - begin;
      copy(transfer, streams_.in, slot(chunk).inputs.as<float>() + from, transfer.memory.as<float>(), now);
    }
    slot(chunk).loaded.record(streams_.in);
  }

  void compute(std::int64_t chunk) {
    streams_.kernels.wait_for(slot(chunk).loaded);
    slot(chunk).kernel_begin.record(streams_.kernels);
    forward_on(slot(chunk), {count(chunk), size_.rows, size_.dim});
    slot(chunk).computed.record(streams_.kernels);
  }

  void store(std::int64_t chunk) {
    const Slot& from = slot(chunk);
    const std::int64_t floats = count(chunk) * size_.elements();
    const std::int64_t transfers = ceil_div(floats, kTransferFloats);
    const auto transfer_of = [&](std::int64_t i) -> Transfer& {
      return out_[static_cast<std::size_t>(i % kTransfers)];
    };
    const auto length_of = [&](std::int64_t i) { return std::min(kTransferFloats, floats - i * kTransferFloats); };
    const auto fetch = [&](std::int64_t i) {
      if (i >= transfers) return;
      copy(transfer_of(i), streams_.out, transfer_of(i).memory.as<float>(),
           from.outputs.as<float>() + i * kTransferFloats, length_of(i));
    };
    streams_.out.wait_for(from.computed);
    for (std::int64_t i = 0; i < kTransfers - 1; ++i) fetch(i);
    for (std::int64_t i = 0; i < transfers; ++i) {
      fetch(i + kTransfers - 1);  // prefetches into the buffer that the last write freed
      note(transfer_of(i), from_device_);
      const double begin = now_seconds();
      solver_.answer.write(transfer_of(i).memory.as<float>(), length_of(i));
      times_.write += now_seconds() - begin;
    }
    kernel_.add(at(from.kernel_begin), at(from.computed));
  }

  const Solver& solver_;
  const ProblemSize size_;
  const Streams streams_;
  const std::int64_t batches_, chunks_;
  GpuBuffer workspace_;
  std::vector<Slot> slots_;
  std::vector<Transfer> in_, out_;
  std::size_t next_in_ = 0;
  // Only one stage writes each of these fields; run() reads them after all stages have ended.
  StageTimes times_;
  BusyTime to_device_, kernel_, from_device_;
};

}  // namespace

StageTimes solve_on_cuda(const Solver& solver) {
  const double begin = now_seconds();
  CudaSolver cuda(solver);
  const double ready = now_seconds();
  StageTimes times = cuda.run();
  times.context = ready - begin - times.buffers;
  return times;
}

}  // namespace strobe::solve
