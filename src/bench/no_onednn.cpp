// Replaces onednn/onednn_peer.cpp in a build without oneDNN: throws Error(unsupported) with the reason.
#include "bench/onednn_peer.h"
#include "core/fail.h"

namespace strobe::bench {
namespace {

[[noreturn]] void refuse_onednn() {
  fail(ErrorCode::unsupported, "{}: this build has no oneDNN 2; install libdnnl-dev and build again", kOnednnPeer);
}

class NoOnednn : public Implementation {
 public:
  std::string name() const override { return kOnednnPeer; }
  std::string kernel() const override { return {}; }
  std::string configuration() const override { return {}; }
  std::optional<std::int64_t> predicted_bytes(const AttentionCase&) override { refuse_onednn(); }
  void prepare(const AttentionCase&, const Inputs&) override { refuse_onednn(); }
  void release() override {}
  double time(Region) override { refuse_onednn(); }
  Results results() override { refuse_onednn(); }
  std::optional<std::int64_t> metered_bytes() override { refuse_onednn(); }
  void settle() override {}
};

}  // namespace

std::unique_ptr<Implementation> make_onednn_peer() { return std::make_unique<NoOnednn>(); }

}  // namespace strobe::bench
