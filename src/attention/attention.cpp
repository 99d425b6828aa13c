// Implements include/strobe/attention.h: each function except kernel_names() validates its arguments and chooses a
// kernel; forward() and backward() then run it. The C ABI (c_api.cpp) calls these functions.
#include "strobe/attention.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "attention/kernel.h"
#include "attention/validate.h"
#include "core/fail.h"
#include "device/gpu_work.h"
#include "device/host/allocator.h"
#include "device/host/float_mode.h"
#include "device/host/thread_pool.h"

namespace strobe {

namespace {

constexpr std::size_t kHostAlignment = CountingAllocator::kAlignment;
constexpr std::size_t kGpuAlignment = 256;  // minimum alignment of every CUDA allocator

// Returns true if Q has no rows, so that O and dQ are empty. (If only K has no rows, O is written as 0 and LSE as
// -inf.)
bool has_no_rows(const Problem& problem) { return problem.batch == 0 || problem.heads_q == 0 || problem.total_q == 0; }

std::size_t workspace_of(const Plan& plan, const Problem& problem) {
  return has_no_rows(problem) ? 0 : plan.workspace_bytes;
}

std::string shape_of(const Problem& problem) {
  return fmt::format("B{} H{}/{} Sq{} Sk{} D{} Dv{} {}", problem.batch, problem.heads_q, problem.heads_kv,
                     problem.max_seqlen_q, problem.max_seqlen_k, problem.d, problem.dv, name_of(problem.dtype));
}

// Runs the chosen kernel. An error gets the kernel's name and the problem's shape as a prefix.
void launch(const Choice& choice, const Problem& problem, void* workspace) {
  try {
    choice.plan.run(problem, workspace);
  } catch (const Error& error) {
    fail(error.code(), "attention: kernel '{}' on {}: {}", choice.kernel->name, shape_of(problem), error.what());
  }
}

// Memory from the caller's allocator, freed at the end of the call.
class CallersMemory {
 public:
  CallersMemory(const Allocator& allocator, std::size_t bytes) : allocator_(allocator), bytes_(bytes) {
    if (!allocator.deallocate) {
      fail(ErrorCode::invalid_argument, "attention: allocator.deallocate is null, but allocator.allocate is not");
    }
    if (bytes == 0) return;
    data_ = allocator.allocate(allocator.context, bytes);
    if (!data_) fail(ErrorCode::out_of_memory, "attention: the caller's allocator returned null for {} bytes", bytes);
  }
  ~CallersMemory() {
    if (data_) allocator_.deallocate(allocator_.context, data_, bytes_);
  }
  CallersMemory(const CallersMemory&) = delete;
  CallersMemory& operator=(const CallersMemory&) = delete;

  void* data() const { return data_; }

 private:
  const Allocator& allocator_;
  std::size_t bytes_;
  void* data_ = nullptr;
};

void check_aligned(const void* workspace, std::size_t alignment, const char* source) {
  if (reinterpret_cast<std::uintptr_t>(workspace) % alignment == 0) return;
  fail(ErrorCode::invalid_argument, "attention: {} at {} is not aligned to {} bytes", source, workspace, alignment);
}

// Runs without a workspace from the caller: allocates one on the CPU; on the GPU the kernel must not need any.
void run_on_own(const Choice& choice, const Problem& problem, std::size_t needed, const Allocator& allocator) {
  if (problem.device == Device::cuda && needed != 0) {
    fail(ErrorCode::invalid_argument,
         "attention: kernel '{}' needs a workspace of {} bytes on the GPU and none was given; pass workspace_bytes() "
         "bytes in Execution::workspace",
         choice.kernel->name, needed);
  }
  if (allocator && problem.device == Device::cpu) {
    const CallersMemory memory(allocator, needed);
    check_aligned(memory.data(), kHostAlignment, "memory of the caller's allocator");
    return launch(choice, problem, memory.data());
  }
  const Buffer own(problem.device == Device::cuda ? 0 : needed, "attention workspace");
  launch(choice, problem, own.data());
}

void run(const Choice& choice, const Problem& problem, const Execution& execution) {
  const std::size_t needed = workspace_of(choice.plan, problem);
  if (!execution.workspace) {
    if (execution.workspace_bytes != 0) {
      fail(ErrorCode::invalid_argument, "attention: workspace is null but workspace_bytes is {}",
           execution.workspace_bytes);
    }
    return run_on_own(choice, problem, needed, execution.allocator);
  }
  if (execution.workspace_bytes < needed) {
    fail(ErrorCode::invalid_argument, "attention: workspace has {} bytes; kernel '{}' needs {}",
         execution.workspace_bytes, choice.kernel->name, needed);
  }
  check_aligned(execution.workspace, problem.device == Device::cuda ? kGpuAlignment : kHostAlignment, "workspace");
  check_workspace_apart(problem, execution.workspace, needed);
  launch(choice, problem, execution.workspace);
}

void fill_with_zeros(const View& view) {
  const auto bytes = static_cast<std::int64_t>(size_of(view.dtype));
  if (view.shape[3] == 0) return;
  for (std::int64_t b = 0; b < view.shape[0]; ++b) {
    for (std::int64_t h = 0; h < view.shape[1]; ++h) {
      for (std::int64_t i = 0; i < view.shape[2]; ++i) {
        const std::int64_t first = b * view.stride[0] + h * view.stride[1] + i * view.stride[2];
        std::memset(static_cast<char*>(view.data) + first * bytes, 0, static_cast<std::size_t>(view.shape[3] * bytes));
      }
    }
  }
}

// Sets all gradients to zero. Called when Q has no rows.
void fill_with_zeros(const Problem& problem) {
  const auto fill = [&](const View& view) {
    if (problem.device == Device::cpu) return fill_with_zeros(view);
    GpuElements elements{.data = view.data, .bytes = size_of(view.dtype)};
    std::copy(view.shape.begin(), view.shape.end(), elements.shape);
    std::copy(view.stride.begin(), view.stride.end(), elements.stride);
    clear_on_gpu(elements, problem.stream);
  };
  fill(problem.dq);
  fill(problem.dk);
  fill(problem.dv_out);
  if (problem.wants_dbias) fill(problem.dbias);
  if (problem.wants_dsinks) fill(view_bhsd<void>(problem.dsinks, DType::fp32, {1, 1, 1, problem.heads_q}));
}

}  // namespace

void forward(const Attention& attention, const ForwardOutputs& outputs, const Execution& execution) {
  const DefaultFloatMode mode;
  const ExecutorScope threads(execution.executor);
  const Problem problem = validate_forward(attention, outputs, execution);
  const Choice choice = choose(problem, execution.kernel);
  if (problem.device == Device::cuda) begin_gpu_work();
  if (!has_no_rows(problem)) run(choice, problem, execution);
}

void backward(const Attention& attention, const BackwardInputs& inputs, const Gradients& gradients,
              const Execution& execution) {
  const DefaultFloatMode mode;
  const ExecutorScope threads(execution.executor);
  const Problem problem = validate_backward(attention, inputs, gradients, execution);
  const Choice choice = choose(problem, execution.kernel);
  if (problem.device == Device::cuda) begin_gpu_work();
  if (has_no_rows(problem)) {
    fill_with_zeros(problem);
  } else {
    run(choice, problem, execution);
  }
}

std::size_t workspace_bytes(const Attention& attention, Pass pass, const Execution& execution) {
  const DefaultFloatMode mode;
  const Problem problem = validate_query(attention, pass, execution);
  return workspace_of(choose(problem, execution.kernel).plan, problem);
}

std::vector<std::string> kernel_names(Device device) {
  std::vector<std::string> names;
  for (const Kernel& kernel : kernels()) {
    if (kernel.device == device && (names.empty() || names.back() != kernel.name)) names.emplace_back(kernel.name);
  }
  return names;
}

std::vector<Verdict> explain(const Attention& attention, Pass pass, const Execution& execution) {
  const DefaultFloatMode mode;
  const Problem problem = validate_query(attention, pass, execution);
  std::optional<Choice> choice;
  try {
    choice = choose(problem, execution.kernel);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;  // `unsupported` is no error here: the verdicts have the reasons
  }
  std::vector<Verdict> verdicts;
  for (const Kernel& kernel : kernels()) {
    if (!kernel.serves(problem)) continue;
    const bool chosen = choice && choice->kernel == &kernel;
    const Plan plan = chosen ? choice->plan : kernel.plan(problem);
    Verdict verdict{.kernel = kernel.name, .refusal = plan.refusal, .configuration = {}, .chosen = chosen};
    if (plan.refusal.empty()) {
      verdict.configuration = plan.text(problem);
      verdict.workspace_bytes = workspace_of(plan, problem);
    }
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

}  // namespace strobe
