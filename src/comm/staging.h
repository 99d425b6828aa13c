// GPU memory for an engine that only takes the host's: pieces go through pinned memory on a stream of their own, so
// that one piece is copied while the one before is with the engine.
#pragma once

#include <memory>

#include "comm/engine.h"

namespace strobe::comm {

class StagedEngine final : public Engine {
 public:
  // `piece_bytes`: of the pinned memory that a piece takes on the way.
  StagedEngine(std::unique_ptr<Engine> host, const World& world, std::int64_t piece_bytes = 8 << 20);
  ~StagedEngine() override;

  bool takes_gpu_memory() const override { return true; }
  std::string share_text(const std::string& text) override { return host_->share_text(text); }
  void run(const Collective& collective, const Stopped& stopped) override;
  void finish() override { host_->finish(); }

 private:
  struct Stage;
  void run_whole(const Collective& collective, const Stopped& stopped);   // broadcast, all-reduce
  void run_shares(const Collective& collective, const Stopped& stopped);  // reduce-scatter, all-gather

  std::unique_ptr<Engine> host_;
  int rank_, size_;
  std::int64_t piece_bytes_;
  std::unique_ptr<Stage> stage_;  // made with the first GPU memory that comes
};

}  // namespace strobe::comm
