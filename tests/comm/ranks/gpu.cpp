// Scenario: collectives of vectors in GPU memory, with MPI or NCCL, compared with sums computed on the host.
#include <vector>

#include "comm/ranks/scenario.h"
#include "device/gpu_buffer.h"

namespace strobe::test {
namespace {

comm::Elements on_gpu(const GpuBuffer& buffer, std::int64_t count) {
  return {buffer.data(), count, comm::Element::fp32, comm::Memory::gpu};
}

std::vector<float> read(const GpuBuffer& buffer, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  buffer.copy_to_host(values.data(), values.size() * sizeof(float));
  return values;
}

}  // namespace

int on_the_gpu(comm::Communicator& communicator) {
  int faults = 0;
  const int rank = communicator.rank(), size = communicator.size();
  for (const std::int64_t total : {1, 5, 100'003, 9'000'001}) {  // the last one has more than four chunks
    std::vector<float> values(static_cast<std::size_t>(total));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>((i % 1009) + static_cast<std::size_t>(rank));
    const auto sum = [&](std::int64_t i) { return static_cast<float>(i % 1009 * size + size * (size - 1) / 2); };
    GpuBuffer in(values.size() * sizeof(float)), out(values.size() * sizeof(float));
    in.copy_from_host(values.data(), in.bytes());
    const auto compare = [&](const char* what, const std::vector<float>& got, std::int64_t first) {
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (got[i] == sum(first + static_cast<std::int64_t>(i))) continue;
        std::fprintf(stderr, "rank %d: %s of %lld on the GPU: element %zu is %g\n", rank, what,
                     static_cast<long long>(total), i, static_cast<double>(got[i]));
        ++faults;
        return;
      }
    };
    out.fill(0xffffffff);
    communicator.all_reduce(on_gpu(in, total), on_gpu(out, total));
    compare("all-reduce", read(out, total), 0);

    const comm::Share share = communicator.share(total);
    GpuBuffer part(static_cast<std::size_t>(share.count + 1) * sizeof(float));
    communicator.reduce_scatter(on_gpu(in, total), on_gpu(part, share.count));
    compare("reduce-scatter", read(part, share.count), share.first);
    out.fill(0xffffffff);
    communicator.all_gather(on_gpu(part, share.count), on_gpu(out, total));
    compare("all-gather", read(out, total), 0);
    if (rank > 0) out.fill(0xffffffff);
    communicator.broadcast(on_gpu(out, total));
    compare("broadcast", read(out, total), 0);
  }
  return faults;
}

}  // namespace strobe::test
