// Tests the canaries around the tests' tensors: they detect every write outside a tensor and ignore writes into it, for
// any layout.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "support/case.h"
#include "support/tensor.h"

namespace strobe::test {
namespace {

constexpr Shape kShape{2, 3, 5, 7};

// Changes every element of the memory that the tensors share, one at a time, including the guards.
void expect_watched(const std::vector<Tensor>& tensors) {
  GuardedBuffer& buffer = *tensors.front().buffer;
  const auto size = static_cast<std::int64_t>(size_of(tensors.front().view.dtype));
  char* const first = static_cast<char*>(buffer.data());
  std::set<std::int64_t> owned;
  for (const Tensor& tensor : tensors) {
    const std::int64_t begin = (static_cast<char*>(tensor.view.data) - first) / size;
    for_each(tensor.view.shape,
             [&](auto b, auto h, auto s, auto c) { owned.insert(begin + tensor.index(b, h, s, c)); });
  }
  ASSERT_EQ(buffer.stray_write(), "");
  const std::int64_t front = (first - buffer.bytes().data()) / size;
  const auto all = static_cast<std::int64_t>(buffer.bytes().size()) / size;
  ASSERT_GE(front, 256 / size);
  for (std::int64_t i = -front; i < all - front; ++i) {
    char& byte = first[i * size + size - 1];
    const char was = byte;
    byte = static_cast<char>(byte ^ 1);
    const std::string report = buffer.stray_write();
    if (owned.contains(i)) {
      EXPECT_EQ(report, "") << i;
    } else {
      EXPECT_NE(report.find(fmt::format(" element {} of ", i)), std::string::npos) << i << ": " << report;
    }
    byte = was;
  }
}

TEST(Canaries, DetectWritesNextToATensor) {
  for (const DType dtype : kDTypes) {
    for (const Layout layout : kLayouts) {
      for (const std::int64_t misalign : {0, 1}) {
        SCOPED_TRACE(fmt::format("{} {} {}", name_of(dtype), name_of(layout), misalign));
        expect_watched({make_tensor({dtype, kShape, layout, misalign})});
      }
    }
    expect_watched(make_fused(dtype, kShape, {3, 1, 2}));
  }
}

TEST(Canaries, DetectEveryWriteIfTheTensorIsEmpty) { expect_watched({make_tensor({DType::fp32, {2, 0, 5, 7}})}); }

TEST(Canaries, TensorsAreGatheredInLogicalOrder) {
  for (const Layout layout : kLayouts) {
    const Tensor tensor = make_tensor({DType::fp32, kShape, layout});
    float* const first = static_cast<float*>(tensor.buffer->data());
    std::vector<double> expected;
    for_each(kShape, [&](auto b, auto h, auto s, auto c) {
      const std::int64_t at = tensor.index(b, h, s, c);
      first[at] = static_cast<float>(at);
      expected.push_back(static_cast<double>(at));
    });
    EXPECT_EQ(tensor.gather(), expected) << name_of(layout);
  }
}

}  // namespace
}  // namespace strobe::test
