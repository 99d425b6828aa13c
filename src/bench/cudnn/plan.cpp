// Implements CudnnPlan: converts a CudnnProblem to a cudnn-frontend graph and runs it. Only this file includes the
// headers of cudnn-frontend, which compile slowly.
#include "bench/cudnn_plan.h"

#include <cudnn_frontend.h>

#include "bench/cudnn/library.h"
#include "core/fail.h"
#include "core/printable.h"

namespace strobe::bench {
namespace {

namespace fe = cudnn_frontend;
using Attributes = std::shared_ptr<fe::graph::Tensor_attributes>;

constexpr std::size_t kMaxReasonBytes = 400;  // longer messages of cuDNN are truncated

enum Uid : std::int64_t { kQ = 1, kK, kV, kO, kLse, kDO, kDQ, kDK, kDV };

std::string one_line(const std::string& text) {
  std::string line;
  for (const char c : text) line += c == '\n' || c == '\t' ? ' ' : c;
  return printable(line, kMaxReasonBytes);
}

void check(fe::error_t error, ErrorCode code, const char* pass) {
  if (error.is_bad()) fail(code, "cudnn: {}: {}", pass, one_line(error.get_message()));
}

const char* name_of(Pass pass) { return pass == Pass::forward ? "forward" : "backward"; }

fe::DataType_t data_type(DType dtype) { return dtype == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF; }

std::vector<std::int64_t> listed(const std::array<std::int64_t, 4>& values) { return {values.begin(), values.end()}; }

Attributes input(fe::graph::Graph& graph, Uid uid, const CudnnTensor& tensor) {
  return graph.tensor(
      fe::graph::Tensor_attributes().set_uid(uid).set_dim(listed(tensor.shape)).set_stride(listed(tensor.stride)));
}

void describe_output(const Attributes& output, Uid uid, const CudnnTensor& tensor) {
  output->set_output(true).set_uid(uid).set_dim(listed(tensor.shape)).set_stride(listed(tensor.stride));
}

// Returns SDPA attributes with scale and mask. Options is the forward or the backward type; both have these setters.
template <class Options>
Options options_of(const CudnnProblem& problem, const char* name) {
  Options options;
  options.set_name(name).set_attn_scale(problem.scale);
  if (problem.mask != CudnnMask::none) {
    options.set_diagonal_alignment(problem.mask == CudnnMask::causal_top_left ? fe::DiagonalAlignment_t::TOP_LEFT
                                                                              : fe::DiagonalAlignment_t::BOTTOM_RIGHT);
    options.set_diagonal_band_right_bound(0);
  }
  return options;
}

void add_forward(fe::graph::Graph& graph, const CudnnProblem& problem) {
  auto options = options_of<fe::graph::SDPA_attributes>(problem, "forward");
  options.set_generate_stats(problem.statistics);
  const auto [o, lse] =
      graph.sdpa(input(graph, kQ, problem.q), input(graph, kK, problem.k), input(graph, kV, problem.v), options);
  describe_output(o, kO, problem.o);
  if (!problem.statistics) return;
  describe_output(lse, kLse, problem.lse);
  lse->set_data_type(fe::DataType_t::FLOAT);
}

void add_backward(fe::graph::Graph& graph, const CudnnProblem& problem) {
  const Attributes lse = input(graph, kLse, problem.lse);
  lse->set_data_type(fe::DataType_t::FLOAT);
  const auto [dq, dk, dv] =
      graph.sdpa_backward(input(graph, kQ, problem.q), input(graph, kK, problem.k), input(graph, kV, problem.v),
                          input(graph, kO, problem.o), input(graph, kDO, problem.o), lse,
                          options_of<fe::graph::SDPA_backward_attributes>(problem, "backward"));
  describe_output(dq, kDQ, problem.q);
  describe_output(dk, kDK, problem.k);
  describe_output(dv, kDV, problem.v);
}

// Converts exceptions of cudnn-frontend, such as a missing symbol, to Error with `code`, as check() does for returned
// errors.
template <class Body>
auto translated(ErrorCode code, Pass pass, Body&& body) {
  try {
    return body();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    fail(code, "cudnn: {}: {}", name_of(pass), one_line(error.what()));
  }
}

}  // namespace

struct CudnnPlan::Parts {
  Pass pass;
  bool statistics;
  fe::graph::Graph graph;
  std::int64_t workspace = 0;  // bytes
  std::string engine;
};

CudnnPlan::CudnnPlan(const CudnnProblem& problem, Pass pass)
    : parts_(new Parts{.pass = pass, .statistics = problem.statistics, .graph = {}, .workspace = 0, .engine = {}}) {
  const CudnnLibrary& library = cudnn_library();
  translated(ErrorCode::unsupported, pass, [&] {
    fe::graph::Graph& graph = parts_->graph;
    graph.set_io_data_type(data_type(problem.dtype))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    pass == Pass::forward ? add_forward(graph, problem) : add_backward(graph, problem);
    const auto must = [&](const fe::error_t& error) { check(error, ErrorCode::unsupported, name_of(pass)); };
    must(graph.build(library.handle, {fe::HeurMode_t::A}));
    must(graph.get_workspace_size(parts_->workspace));
    must(graph.get_plan_name(parts_->engine));
  });
}

CudnnPlan::CudnnPlan(CudnnPlan&&) noexcept = default;
CudnnPlan::~CudnnPlan() = default;

std::size_t CudnnPlan::workspace_bytes() const { return static_cast<std::size_t>(parts_->workspace); }

std::string CudnnPlan::engine() const { return parts_->engine; }

void CudnnPlan::run(const CudnnPointers& pointers, void* workspace, void* stream) const {
  std::unordered_map<std::int64_t, void*> pack{{kQ, pointers.q}, {kK, pointers.k}, {kV, pointers.v}, {kO, pointers.o}};
  if (parts_->statistics) pack.emplace(kLse, pointers.lse);
  if (parts_->pass == Pass::backward) {
    pack.insert({{kDO, pointers.d_o}, {kDQ, pointers.dq}, {kDK, pointers.dk}, {kDV, pointers.dv}});
  }
  translated(ErrorCode::runtime, parts_->pass, [&] {
    const cudnnHandle_t handle = cudnn_library().handle;
    const cudnnStatus_t status = fe::detail::set_stream(handle, static_cast<cudaStream_t>(stream));
    if (status != CUDNN_STATUS_SUCCESS) {
      fail(ErrorCode::runtime, "cudnn: cannot set the stream: {}", fe::detail::get_error_string(status));
    }
    check(parts_->graph.execute(handle, pack, workspace), ErrorCode::runtime, name_of(parts_->pass));
  });
}

std::string cudnn_version() { return cudnn_library().version; }

std::string cudnn_frontend_version() {
  return fmt::format("{}.{}.{}", CUDNN_FRONTEND_MAJOR_VERSION, CUDNN_FRONTEND_MINOR_VERSION,
                     CUDNN_FRONTEND_PATCH_VERSION);
}

}  // namespace strobe::bench
