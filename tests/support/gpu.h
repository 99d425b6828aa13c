// Runs test cases on a GPU. Copies whole buffers, canaries included and with the same alignment, to the GPU, and back
// after each pass. Without a GPU, the tests are skipped and give the reason.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/gpu_buffer.h"
#include "device/gpu_stream.h"
#include "support/data.h"
#include "support/run.h"

namespace strobe::test {

class GpuTest : public testing::Test {
 protected:
  void SetUp() override;  // skips without a GPU
};

// Returns the names of the library's CUDA kernels in their order, then "", which is the library's choice for each pass.
// STROBE_TEST_KERNEL limits the list to one kernel.
std::vector<std::string> gpu_kernels();

// Returns true for kernels that recompute P from Q and K instead of using the LSE and O that they are given.
inline bool is_plain(std::string_view kernel) { return kernel == "standard" || kernel == "frugal"; }

// Returns why the kernel refuses a pass; empty if it accepts both. Does not check the outputs' strides.
std::string gpu_refusal(const Attention& attention, std::string_view kernel);

// Returns true if this refusal of hopper concerns the GPU or the build, not the problem.
bool needs_hopper(std::string_view refusal);

// GPU memory for consecutive cases: one large block, because cudaFree synchronizes the whole GPU. If
// STROBE_TEST_SEPARATE is set, every buffer is a separate allocation, so compute-sanitizer detects accesses past its
// end.
class GpuArena {
 public:
  explicit GpuArena(std::size_t bytes);

  // Allocates at an address that is `phase` modulo 256. Valid until clear().
  char* take(std::size_t bytes, std::size_t phase = 0);
  void clear();
  bool is_separate() const { return is_separate_; }

 private:
  GpuBuffer block_;
  std::size_t used_ = 0;
  std::vector<GpuBuffer> separate_;
  bool is_separate_;
};

// A stream and memory for the cases of one host thread.
struct GpuLane {
  GpuStream stream;
  GpuArena arena{std::size_t{192} << 20};
};

struct GpuRunOptions {
  std::string_view kernel;
  bool deterministic = true;
  bool tf32 = false;
  bool forward_only = false;  // gradients remain empty
};

// The inputs of a case on the GPU. Data and lane must outlive it. A lane holds one GpuCase at a time.
class GpuCase {
 public:
  GpuCase(const Data& data, GpuLane& lane);

  // Runs the case as run() of support/run.h does: outputs filled with NaN, guards, and a workspace of exactly the
  // required bytes.
  Outcome run(const GpuRunOptions& options);

  // Returns why the kernel refuses a pass of the case; empty if it accepts both. Checks only the pass `only`, if given.
  std::string refusal(std::string_view kernel, std::optional<Pass> only = {}) const;

  const Attention& attention() const { return attention_; }
  ConstView d_o() const { return d_o_; }
  // Returns the inputs of backward: the outputs of forward, dO and the gradient of LSE if the case has one.
  BackwardInputs backward_inputs(const View& o, const float* lse) const;

  // Copies a tensor's present values to the GPU.
  View upload(const Tensor& tensor);
  void download(Tensor& tensor);

 private:
  struct Workspace;
  void* upload_array(const void* from, std::size_t bytes);
  char* place_of(const GuardedBuffer& buffer) const { return places_.at(&buffer); }
  std::string changed_input();

  const Data& data_;
  GpuLane& lane_;
  std::map<const GuardedBuffer*, char*> places_;  // GPU address of the first byte of a buffer
  Attention attention_;
  ConstView d_o_, d_lse_;
};

}  // namespace strobe::test
