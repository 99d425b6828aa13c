// Running test cases on a GPU: the tensors of a case are copied there with their canaries, byte by byte and equally
// aligned, and back after each pass. Without a GPU the tests that need one are skipped with the reason.
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

// Kernels of the library on CUDA, in their order, then "": the library's own choice for each pass. STROBE_TEST_KERNEL
// names the only one to test.
std::vector<std::string> gpu_kernels();

// The kernels that compute probabilities again from Q and K, whatever LSE and O they are given.
inline bool is_plain(std::string_view kernel) { return kernel == "standard" || kernel == "frugal"; }

// Returns why the kernel refuses a pass; empty: it does not. Ignores refusals that depend on outputs.
std::string gpu_refusal(const Attention& attention, std::string_view kernel);

// Returns whether hopper refuses because of the GPU or the build, not the problem.
bool needs_hopper(std::string_view refusal);

// GPU memory for one case after another. One large block, because cudaFree waits for the whole GPU. With
// STROBE_TEST_SEPARATE every buffer is an allocation of its own, so that compute-sanitizer sees its ends.
class GpuArena {
 public:
  explicit GpuArena(std::size_t bytes);

  // At an address that is `phase` modulo 256. Valid until clear().
  char* take(std::size_t bytes, std::size_t phase = 0);
  void clear();
  bool is_separate() const { return is_separate_; }

 private:
  GpuBuffer block_;
  std::size_t used_ = 0;
  std::vector<GpuBuffer> separate_;
  bool is_separate_;
};

// A stream and memory: what one host thread needs to run cases.
struct GpuLane {
  GpuStream stream;
  GpuArena arena{std::size_t{192} << 20};
};

struct GpuRunOptions {
  std::string_view kernel;
  bool deterministic = true;
  bool tf32 = false;
  bool forward_only = false;  // gradients stay empty
};

// The inputs of a case on the GPU. The data and the lane must outlive it; one at a time for a lane.
class GpuCase {
 public:
  GpuCase(const Data& data, GpuLane& lane);

  // As run() of support/run.h: poisoned outputs, guards, a workspace of exactly the bytes asked for.
  Outcome run(const GpuRunOptions& options);

  // Empty, or why the kernel refuses a pass of the case, or this one. That nothing is refused in the end is for
  // choose_on_cuda_test.cpp.
  std::string refusal(std::string_view kernel, std::optional<Pass> only = {}) const;

  const Attention& attention() const { return attention_; }
  ConstView d_o() const { return d_o_; }

  // A tensor's twin on the GPU, uploaded as it is now.
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
  ConstView d_o_;
};

}  // namespace strobe::test
