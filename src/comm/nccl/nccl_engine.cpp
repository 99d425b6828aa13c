// Engine nccl: one rank per GPU, with all NCCL calls on the engine's stream. run() waits on the host until a call has
// ended, so Pending::done() and wait() have the same meaning as with other engines.
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sched.h>

#include <cstring>

#include "comm/engine.h"
#include "core/fail.h"
#include "device/cuda/check.h"
#include "device/gpu_buffer.h"
#include "device/gpu_facts.h"
#include "device/gpu_stream.h"

namespace strobe::comm {
namespace {

void check(ncclResult_t status, const char* call) {
  if (status != ncclSuccess && status != ncclInProgress)
    fail(ErrorCode::runtime, "nccl: {} failed: {}", call, ncclGetErrorString(status));
}

ncclDataType_t type_of(Element element) {
  switch (element) {
    case Element::byte: return ncclUint8;
    case Element::fp32: return ncclFloat32;
    case Element::fp64: return ncclFloat64;
    case Element::int64: return ncclInt64;
  }
  return ncclUint8;
}

std::size_t count_of(const Elements& elements) { return static_cast<std::size_t>(elements.count); }

class NcclEngine final : public Engine {
 public:
  NcclEngine(const World& world, const std::string& id) : rank_(world.rank), size_(world.size) {
    int gpus = 0;
    STROBE_CUDA_CHECK(cudaGetDeviceCount(&gpus));
    const int local = world.local_size > 0 ? world.local_size : 1;
    if (world.local_rank >= gpus)
      fail(ErrorCode::unsupported,
           "nccl: {} ranks and {} GPUs on {}; valid: at most one rank per GPU (engine mpi lets ranks share a GPU)",
           local, gpus, world.host);
    use_gpu(world.local_rank);
    ncclUniqueId unique{};
    if (id.size() != 2 * sizeof(unique))
      fail(ErrorCode::runtime, "nccl: the id has an invalid length of {} digits", id.size());
    for (std::size_t i = 0; i < sizeof(unique); ++i)
      unique.internal[i] = static_cast<char>(std::stoi(id.substr(2 * i, 2), nullptr, 16));
    check(ncclCommInitRank(&comm_, size_, unique, rank_), "ncclCommInitRank");
    stream_ = std::make_unique<GpuStream>(GpuStream::Priority::first);  // high priority: other work waits for it
    token_ = GpuBuffer(sizeof(float));
  }

  ~NcclEngine() override {
    if (comm_) ncclCommAbort(comm_);  // finish() was not called; ncclCommAbort does not wait for lost ranks
  }

  bool takes_gpu_memory() const override { return true; }

  void run(const Collective& collective, const Stopped& stopped) override {
    if (collective.kind != Kind::barrier && collective.out.memory == Memory::host)
      return run_on_copies(collective, stopped);
    if (collective.after) stream_->wait_for(*collective.after);
    enqueue(collective);
    while (cudaStreamQuery(stream()) == cudaErrorNotReady) {
      ncclResult_t status = ncclSuccess;
      check(ncclCommGetAsyncError(comm_, &status), "ncclCommGetAsyncError");
      check(status, "a collective");
      if (stopped()) {
        ncclCommAbort(std::exchange(comm_, nullptr));
        return;
      }
      sched_yield();
    }
    stream_->synchronize();  // reports asynchronous errors
  }

  void finish() override { check(ncclCommDestroy(std::exchange(comm_, nullptr)), "ncclCommDestroy"); }

 private:
  // Runs a collective on host memory through GPU buffers. Only small collectives need it, for example to compare the
  // settings of ranks.
  void run_on_copies(const Collective& collective, const Stopped& stopped) {
    const Elements &in = collective.in, &out = collective.out;
    const GpuBuffer gpu_in(static_cast<std::size_t>(in.bytes()) + 8),
        gpu_out(static_cast<std::size_t>(out.bytes()) + 8);
    if (in.count > 0) stream_->copy(gpu_in.data(), in.data, static_cast<std::size_t>(in.bytes()));
    stream_->copy(gpu_out.data(), out.data, static_cast<std::size_t>(out.bytes()));
    Collective copied = collective;
    copied.in = {gpu_in.data(), in.count, in.element, Memory::gpu};
    copied.out = {gpu_out.data(), out.count, out.element, Memory::gpu};
    run(copied, stopped);
    if (stopped()) return;
    stream_->copy(out.data, gpu_out.data(), static_cast<std::size_t>(out.bytes()));
    stream_->synchronize();
  }

  cudaStream_t stream() const { return static_cast<cudaStream_t>(stream_->handle()); }

  void enqueue(const Collective& collective) {
    const Elements &in = collective.in, &out = collective.out;
    const ncclDataType_t type = type_of(out.element);
    switch (collective.kind) {
      case Kind::barrier:
        check(ncclAllReduce(token_.data(), token_.data(), 1, ncclFloat32, ncclSum, comm_, stream()), "ncclAllReduce");
        return;
      case Kind::broadcast:
        check(ncclBroadcast(out.data, out.data, count_of(out), type, collective.root, comm_, stream()),
              "ncclBroadcast");
        return;
      case Kind::all_reduce:
        check(ncclAllReduce(in.data, out.data, count_of(out), type, ncclSum, comm_, stream()), "ncclAllReduce");
        return;
      case Kind::reduce_scatter: return reduce_scatter(in, out);
      case Kind::all_gather: return all_gather(in, out);
    }
  }

  // Equal shares need one NCCL call; unequal shares need one ncclReduce per rank, launched as a group.
  void reduce_scatter(const Elements& in, const Elements& out) {
    const ncclDataType_t type = type_of(in.element);
    if (in.count % size_ == 0) {
      check(ncclReduceScatter(in.data, out.data, count_of(out), type, ncclSum, comm_, stream()), "ncclReduceScatter");
      return;
    }
    check(ncclGroupStart(), "ncclGroupStart");
    for (int root = 0; root < size_; ++root) {
      const Share share = share_of(in.count, root, size_);
      if (share.count == 0) continue;
      const Elements part = in.part(share.first, share.count);
      check(ncclReduce(part.data, out.data, count_of(part), type, ncclSum, root, comm_, stream()), "ncclReduce");
    }
    check(ncclGroupEnd(), "ncclGroupEnd");
  }

  void all_gather(const Elements& in, const Elements& out) {
    const ncclDataType_t type = type_of(out.element);
    if (out.count % size_ == 0) {
      check(ncclAllGather(in.data, out.data, count_of(in), type, comm_, stream()), "ncclAllGather");
      return;
    }
    check(ncclGroupStart(), "ncclGroupStart");
    for (int root = 0; root < size_; ++root) {
      const Share share = share_of(out.count, root, size_);
      if (share.count == 0) continue;
      const Elements part = out.part(share.first, share.count);
      check(ncclBroadcast(root == rank_ ? in.data : part.data, part.data, count_of(part), type, root, comm_, stream()),
            "ncclBroadcast");
    }
    check(ncclGroupEnd(), "ncclGroupEnd");
  }

  int rank_, size_;
  ncclComm_t comm_ = nullptr;
  std::unique_ptr<GpuStream> stream_;
  GpuBuffer token_;  // the operand of a barrier's all-reduce
};

}  // namespace

const char* why_no_nccl() { return nullptr; }

std::string nccl_id() {
  ncclUniqueId unique;
  check(ncclGetUniqueId(&unique), "ncclGetUniqueId");
  std::string text;
  for (const char byte : unique.internal) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::unique_ptr<Engine> make_nccl_engine(const World& world, const std::string& id) {
  return std::make_unique<NcclEngine>(world, id);
}

}  // namespace strobe::comm
