// Replaces cudnn/plan.cpp in a build without cuDNN: each function throws Error(unsupported) with the reason.
#include "bench/cudnn_plan.h"
#include "core/fail.h"

namespace strobe::bench {
namespace {

[[noreturn]] void refuse_cudnn() {
  fail(ErrorCode::unsupported,
       "cudnn: this build lacks CUDA, cudnn.h or the headers of cudnn-frontend; "
       "tools/cudnn-headers or 'pip install nvidia-cudnn-frontend' installs the headers, "
       "-DSTROBE_CUDNN_FRONTEND_DIR=FOLDER sets the folder of the headers");
}

}  // namespace

struct CudnnPlan::Parts {};

CudnnPlan::CudnnPlan(const CudnnProblem&, Pass) { refuse_cudnn(); }
CudnnPlan::CudnnPlan(CudnnPlan&&) noexcept = default;
CudnnPlan::~CudnnPlan() = default;
std::size_t CudnnPlan::workspace_bytes() const { refuse_cudnn(); }
std::string CudnnPlan::engine() const { refuse_cudnn(); }
void CudnnPlan::run(const CudnnPointers&, void*, void*) const { refuse_cudnn(); }

std::string cudnn_version() { refuse_cudnn(); }
std::string cudnn_frontend_version() { refuse_cudnn(); }

}  // namespace strobe::bench
