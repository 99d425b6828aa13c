// Runs collectives on GPU memory with an engine that accepts only host memory. Data pass through pinned memory in
// chunks: one chunk is copied on a separate stream while the engine processes the previous one. worker.cpp wraps engine
// mpi in it.
#pragma once

#include <memory>

#include "comm/engine.h"

namespace strobe::comm {

class StagedEngine final : public Engine {
 public:
  // `chunk_bytes`: bytes of pinned memory per chunk.
  StagedEngine(std::unique_ptr<Engine> host, const World& world, std::int64_t chunk_bytes = 8 << 20);
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
  std::int64_t chunk_bytes_;
  std::unique_ptr<Stage> stage_;  // created at the first call with GPU memory
};

}  // namespace strobe::comm
