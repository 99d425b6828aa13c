// Engine single, for one rank: reductions and gathers are copies, the other collectives do nothing.
#include <cstring>

#include "comm/engine.h"
#include "device/gpu_stream.h"

namespace strobe::comm {
namespace {

class SingleEngine final : public Engine {
 public:
  bool takes_gpu_memory() const override { return true; }

  void run(const Collective& collective, const Stopped&) override {
    const Elements &in = collective.in, &out = collective.out;
    const bool copies = collective.kind != Kind::barrier && collective.kind != Kind::broadcast;
    if (!copies || in.data == out.data || in.count == 0) return;
    if (in.memory == Memory::host && out.memory == Memory::host) {
      std::memcpy(out.data, in.data, static_cast<std::size_t>(in.bytes()));
      return;
    }
    const GpuStream stream;
    if (collective.after) stream.wait_for(*collective.after);
    stream.copy(out.data, in.data, static_cast<std::size_t>(in.bytes()));
    stream.synchronize();
  }
};

}  // namespace

std::unique_ptr<Engine> make_single_engine() { return std::make_unique<SingleEngine>(); }

}  // namespace strobe::comm
