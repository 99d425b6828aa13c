// Stubs for a build without NCCL or CUDA. Functions that need NCCL throw Error(unsupported).
#include "comm/engine.h"
#include "core/fail.h"

namespace strobe::comm {

namespace {
constexpr const char* kNoNccl = "this build has no NCCL (configure it with CUDA and with nccl.h installed)";
}

const char* why_no_nccl() { return kNoNccl; }

std::unique_ptr<Engine> make_nccl_engine(const World&, const std::string&) {
  fail(ErrorCode::unsupported, "nccl: {}", kNoNccl);
}

std::string nccl_id() { fail(ErrorCode::unsupported, "nccl: {}", kNoNccl); }

}  // namespace strobe::comm
