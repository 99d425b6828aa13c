// Compares CPU kernels with golden values from PyTorch (tests/data/golden, made by tools/golden). Relative to the
// largest value of a tensor, errors of the float64 reference may be up to 1e-12, and those of fp32 kernels up to 3e-6.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "attention/reference/reference.h"
#include "attention/validate.h"
#include "strobe/attention.h"
#include "support/fields.h"

namespace strobe {
namespace {

using Values = std::vector<double>;

struct Golden {
  explicit Golden(const std::filesystem::path& path) : fields(test::read_fields(path)), attention{} {
    for (const auto& [name, values] : fields) floats[name].assign(values.begin(), values.end());
    batch = size("batch");
    packed = size("packed") != 0;
    const std::int64_t views = packed ? 1 : batch;
    lengths_q = indices("lengths_q");
    lengths_k = indices("lengths_k");
    const std::int64_t rows = packed ? lengths_q.back() : size("sq");
    const std::int64_t keys = packed ? lengths_k.back() : size("sk");
    shape_q = {views, size("heads_q"), rows, size("d")};
    shape_k = {views, size("heads_kv"), keys, size("d")};
    shape_v = {views, size("heads_kv"), keys, size("dv")};
    shape_o = {views, size("heads_q"), rows, size("dv")};
    describe();
  }
  Golden(const Golden&) = delete;

  std::int64_t size(const std::string& name) const { return static_cast<std::int64_t>(fields.at(name).at(0)); }
  bool has(const std::string& name) const { return fields.count(name) > 0; }

  // Returns the lengths, or for a packed batch the cumulative offsets.
  std::vector<std::int64_t> indices(const std::string& name) const {
    std::vector<std::int64_t> out;
    if (!has(name)) return out;
    if (packed) out.push_back(0);
    for (const double length : fields.at(name)) {
      out.push_back(static_cast<std::int64_t>(length) + (packed ? out.back() : 0));
    }
    return out;
  }

  ConstView view(const std::string& name, const std::array<std::int64_t, 4>& shape) const {
    return view_bhsd(static_cast<const void*>(floats.at(name).data()), DType::fp32, shape);
  }

  void describe() {
    attention.q = view("q", shape_q);
    attention.k = view("k", shape_k);
    attention.v = view("v", shape_v);
    if (has("scale")) attention.scale = floats.at("scale")[0];
    attention.causal = size("causal") != 0;
    attention.window = {size("window"), static_cast<std::int64_t>(fields.at("window")[1])};
    attention.alignment = static_cast<Alignment>(size("alignment"));
    attention.softcap = floats.at("softcap")[0];
    if (has("alibi_slopes")) attention.alibi_slopes = floats.at("alibi_slopes").data();
    if (has("sinks")) attention.sinks = floats.at("sinks").data();
    if (has("bias")) {
      for (std::size_t i = 0; i < 4; ++i) shape_bias[i] = static_cast<std::int64_t>(fields.at("bias_shape")[i]);
      attention.bias = view("bias", shape_bias);
    }
    const auto index = [](const std::vector<std::int64_t>& from) {
      return from.empty() ? IndexView{} : view_index(from.data(), static_cast<std::int64_t>(from.size()));
    };
    (packed ? attention.cu_seqlens_q : attention.lengths_q) = index(lengths_q);
    (packed ? attention.cu_seqlens_k : attention.lengths_k) = index(lengths_k);
  }

  test::Fields fields;
  std::map<std::string, std::vector<float>> floats;
  std::int64_t batch = 0;
  bool packed = false;
  std::vector<std::int64_t> lengths_q, lengths_k;
  std::array<std::int64_t, 4> shape_q{}, shape_k{}, shape_v{}, shape_o{}, shape_bias{};
  Attention attention;
};

std::vector<std::filesystem::path> files() {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(STROBE_TEST_DATA) + "/golden")) {
    if (entry.path().extension() == ".txt") found.push_back(entry.path());
  }
  return found;
}

// Expects equality if the golden value is not finite; otherwise a difference of at most `tolerance` times the largest
// golden value.
template <class T>
void expect_close(const Golden& golden, const std::string& name, const std::vector<T>& values, double tolerance) {
  const Values& expected = golden.fields.at(name);
  ASSERT_EQ(values.size(), expected.size()) << name;
  double largest = 1e-30;
  for (const double value : expected) largest = std::isfinite(value) ? std::max(largest, std::abs(value)) : largest;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(expected[i])) {
      EXPECT_EQ(values[i], expected[i]) << name << "[" << i << "]";
    } else {
      ASSERT_NEAR(values[i], expected[i], tolerance * largest) << name << "[" << i << "]";
    }
  }
}

template <class T>
struct Outputs {
  explicit Outputs(const Golden& golden) {
    const auto size = [&](std::vector<T>& values, const char* name) {
      if (golden.has(name)) values.assign(golden.fields.at(name).size(), T(NAN));
    };
    size(o, "o"), size(lse, "lse"), size(dq, "grad_q"), size(dk, "grad_k"), size(dv, "grad_v");
    size(dbias, "grad_bias"), size(dsinks, "grad_sinks");
  }
  void check(const Golden& golden, double tolerance) const {
    expect_close(golden, "o", o, tolerance);
    expect_close(golden, "lse", lse, tolerance);
    expect_close(golden, "grad_q", dq, tolerance);
    expect_close(golden, "grad_k", dk, tolerance);
    expect_close(golden, "grad_v", dv, tolerance);
    if (golden.has("grad_bias")) expect_close(golden, "grad_bias", dbias, tolerance);
    if (golden.has("grad_sinks")) expect_close(golden, "grad_sinks", dsinks, tolerance);
  }
  std::vector<T> o, lse, dq, dk, dv, dbias, dsinks;
};

TEST(Golden, FilesExist) { EXPECT_GE(files().size(), 40u); }

TEST(Golden, Reference64) {
  for (const auto& path : files()) {
    SCOPED_TRACE(path.filename());
    const Golden golden(path);
    Outputs<double> out(golden);
    Problem problem = validate_query(golden.attention, Pass::forward, {.threads = 2});
    problem.d_o = golden.view("d_o", golden.shape_o);
    reference::forward64(problem, out.o.data(), out.lse.data());
    reference::backward64(problem, {.dq = out.dq.data(),
                                    .dk = out.dk.data(),
                                    .dv = out.dv.data(),
                                    .dbias = out.dbias.empty() ? nullptr : out.dbias.data(),
                                    .dsinks = out.dsinks.empty() ? nullptr : out.dsinks.data()});
    out.check(golden, 1e-12);
  }
}

void check_kernel(const char* kernel) {
  for (const auto& path : files()) {
    SCOPED_TRACE(path.filename());
    const Golden golden(path);
    Outputs<float> out(golden);
    const auto view = [](std::vector<float>& values, const std::array<std::int64_t, 4>& shape) {
      return view_bhsd(static_cast<void*>(values.data()), DType::fp32, shape);
    };
    const Execution execution{.kernel = kernel, .threads = 2};
    forward(golden.attention, {.o = view(out.o, golden.shape_o), .lse = out.lse.data()}, execution);
    Gradients gradients{
        .dq = view(out.dq, golden.shape_q), .dk = view(out.dk, golden.shape_k), .dv = view(out.dv, golden.shape_v)};
    if (golden.has("grad_bias")) gradients.dbias = view(out.dbias, golden.shape_bias);
    if (golden.has("grad_sinks")) gradients.dsinks = out.dsinks.data();
    backward(golden.attention,
             {.o = view(out.o, golden.shape_o), .lse = out.lse.data(), .d_o = golden.view("d_o", golden.shape_o)},
             gradients, execution);
    out.check(golden, 3e-6);
  }
}

TEST(Golden, Reference) { check_kernel("reference"); }
TEST(Golden, Standard) { check_kernel("standard"); }
TEST(Golden, Frugal) { check_kernel("frugal"); }
TEST(Golden, Flash2) { check_kernel("flash2"); }

}  // namespace
}  // namespace strobe
