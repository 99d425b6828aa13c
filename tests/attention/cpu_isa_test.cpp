// Tests the functions of flash2's instruction-set tables that pack, multiply and store, and the maxima of a forward
// step, against plain loops over the layouts of attention/cpu/isa.h. Rows are allocated at their exact size, and
// canaries surround the outputs.
#include "attention/cpu/isa.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "core/half.h"
#include "device/host/instruction_sets.h"
#include "support/random.h"

namespace strobe::cpu {
namespace {

using test::Random;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

int rounded_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

// Returns a small integer. Products and sums of such integers are exact in every type.
float small_integer(Random& random) { return static_cast<float>(random.between(-8, 8)); }

bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// Elements of a type, aligned as in a workspace, between canaries that must stay unchanged.
class Guarded {
 public:
  Guarded(DType dtype, std::ptrdiff_t count)
      : dtype_(dtype),
        bytes_(static_cast<std::size_t>(count) * size_of(dtype)),
        memory_(static_cast<unsigned char*>(std::aligned_alloc(64, (bytes_ + 2 * kGuard + 63) / 64 * 64)), std::free) {
    std::memset(memory_.get(), 0xa5, bytes_ + 2 * kGuard);
  }
  void* data() { return memory_.get() + kGuard; }
  float* floats() { return static_cast<float*>(data()); }
  float operator[](std::ptrdiff_t i) { return load_element(data(), dtype_, i); }
  void set(std::ptrdiff_t i, float value) { store_element(data(), dtype_, i, value); }
  bool intact() const {
    const auto is_canary = [](unsigned char byte) { return byte == 0xa5; };
    const unsigned char* begin = memory_.get();
    return std::all_of(begin, begin + kGuard, is_canary) &&
           std::all_of(begin + kGuard + bytes_, begin + 2 * kGuard + bytes_, is_canary);
  }

 private:
  static constexpr std::size_t kGuard = 64;
  DType dtype_;
  std::size_t bytes_;
  std::unique_ptr<unsigned char, void (*)(void*)> memory_;
};

// An operand in the layout of isa.h: contiguous chunks. A chunk of split floats stores the first part of every element,
// then the second parts, then the third.
class Panels {
 public:
  Panels(const Isa& isa, std::ptrdiff_t count, std::ptrdiff_t chunk)
      : parts_(isa.terms), chunk_(chunk), elements_(parts_ == 1 ? isa.compute : DType::bf16, count * parts_) {}
  void* data() { return elements_.data(); }
  bool intact() const { return elements_.intact(); }
  float operator[](std::ptrdiff_t i) {
    float sum = 0;
    for (int part = parts_; part-- > 0;) sum += elements_[at(i, part)];
    return sum;
  }
  std::vector<float> values(std::ptrdiff_t count) {
    std::vector<float> all;
    for (std::ptrdiff_t i = 0; i < count; ++i) all.push_back((*this)[i]);
    return all;
  }
  void set(std::ptrdiff_t i, float value) {
    for (int part = 0; part < parts_; ++part) {
      elements_.set(at(i, part), value);
      value -= elements_[at(i, part)];
    }
  }

 private:
  std::ptrdiff_t at(std::ptrdiff_t i, int part) const {
    return parts_ == 1 ? i : (i / chunk_ * parts_ + part) * chunk_ + i % chunk_;
  }
  int parts_;
  std::ptrdiff_t chunk_;
  Guarded elements_;
};

// A caller's matrix. Each row is a separate heap block of exactly its size; some rows may be null.
struct Matrix {
  DType dtype;
  int rows, cols, col_stride;
  std::vector<std::unique_ptr<char[]>> blocks;
  std::vector<const void*> pointers;

  Matrix(DType dtype, int rows, int cols, int col_stride = 1)
      : dtype(dtype), rows(rows), cols(cols), col_stride(col_stride) {
    for (int r = 0; r < rows; ++r) {
      const std::size_t elements = col_stride == 0 ? 1 : static_cast<std::size_t>(cols);
      blocks.push_back(std::make_unique<char[]>(elements * size_of(dtype)));
      pointers.push_back(blocks.back().get());
    }
  }
  void set(int r, int c, float value) { store_element(blocks[static_cast<std::size_t>(r)].get(), dtype, c, value); }
  void fill(Random& random) {
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < (col_stride == 0 ? 1 : cols); ++c) set(r, c, random.normal());
    }
  }
  // Returns 0 outside the matrix and in null rows.
  float at(int r, int c) const {
    if (r >= rows || c >= cols || !pointers[static_cast<std::size_t>(r)]) return 0;
    return load_element(pointers[static_cast<std::size_t>(r)], dtype, c * col_stride);
  }
};

// Names an instruction set and the type of its panels.
struct Table {
  const char* name;
  DType compute;
};
std::string title(const Table& table) { return std::string(table.name) + "_" + name_of(table.compute); }
void PrintTo(const Table& table, std::ostream* out) { *out << title(table); }

class CpuIsa : public testing::TestWithParam<Table> {
 protected:
  void SetUp() override {
    isa_ = find_isa(GetParam().name, GetParam().compute);
    if (!isa_) GTEST_SKIP() << "this machine does not have " << GetParam().name;
    ASSERT_STREQ(isa_->name, GetParam().name);
  }
  // Index of step t of row r in M panels, in isa.h's layout. in_n() is the same for column c in N panels.
  std::ptrdiff_t in_m(int r, int t, int steps) const {
    const int m = isa_->m, k = isa_->k;
    return static_cast<std::ptrdiff_t>(r / m) * steps * m + t / k * m * k + r % m * k + t % k;
  }
  std::ptrdiff_t in_n(int c, int t, int steps, int width) const {
    const int k = isa_->k, p = isa_->p, within = t % k;
    return static_cast<std::ptrdiff_t>(c / width) * steps * width + t / k * k * width + within / p * width * p +
           c % width * p + within % p;
  }
  // Returns the step at which pack_nt stores row r.
  int row_step(int r) const {
    const int k = isa_->k, within = r % k;
    return isa_->interleaved ? r - within + within % (k / 2) * 2 + within / (k / 2) : r;
  }
  std::vector<DType> sources() const {
    if (isa_->compute == DType::bf16) return {DType::bf16};
    if (isa_->terms > 1) return {DType::fp32};
    return {DType::fp32, DType::fp16, DType::bf16};
  }

  // Packs the matrix and checks the return value, that element (r, c) is at index(r, c), and that the padding is zero.
  template <class Index>
  void expect_packed(const char* what, bool (*pack)(const Pack&), const Matrix& matrix, int rows, int cols,
                     bool non_finite, Index index) {
    Panels out(*isa_, static_cast<std::ptrdiff_t>(rows) * cols, isa_->m * isa_->k);
    std::vector<const void*> all = matrix.pointers;  // then pointers past `count`, which packing must ignore
    for (int i = 0; i < matrix.rows % 3 * 25; ++i) all.push_back(i % 4 == 1 ? nullptr : matrix.blocks[0].get());
    all.shrink_to_fit();
    const Pack request{.rows = all.data(),
                       .count = matrix.rows,
                       .cols = matrix.cols,
                       .dtype = matrix.dtype,
                       .col_stride = matrix.col_stride,
                       .out = out.data(),
                       .following = static_cast<int>(all.size()) - matrix.rows};
    const std::string title = std::string(what) + " of " + std::to_string(matrix.rows) + " x " +
                              std::to_string(matrix.cols) + " " + name_of(matrix.dtype) + ", column stride " +
                              std::to_string(matrix.col_stride);
    EXPECT_EQ(pack(request), non_finite) << title;
    EXPECT_TRUE(out.intact()) << title << " wrote outside its output";
    if (non_finite && isa_->terms > 1) return;  // callers of split floats discard such panels
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < cols; ++c) {
        ASSERT_TRUE(same(out[index(r, c)], matrix.at(r, c)))
            << title << ": element (" << r << ", " << c << ") is " << out[index(r, c)] << ", not " << matrix.at(r, c);
      }
    }
  }
  std::vector<RowPanel> row_panels() const {
    std::vector<RowPanel> panels{isa_->wide()};
    if (isa_->narrow.n > 0) panels.push_back(isa_->narrow);
    return panels;
  }
  void expect_all_packs(const Matrix& matrix, bool non_finite) {
    const int m = isa_->m, w = isa_->cols, k = isa_->k;
    const int row_steps = rounded_up(matrix.rows, k), col_steps = rounded_up(matrix.cols, k);
    expect_packed("pack_m", isa_->pack_m, matrix, rounded_up(matrix.rows, m), col_steps, non_finite,
                  [&](int r, int c) { return in_m(r, c, col_steps); });
    expect_packed("pack_mt", isa_->pack_mt, matrix, row_steps, rounded_up(matrix.cols, m), non_finite,
                  [&](int r, int c) { return in_m(c, r, row_steps); });
    expect_packed("pack_nt", isa_->pack_nt, matrix, row_steps, rounded_up(matrix.cols, w), non_finite,
                  [&](int r, int c) { return in_n(c, row_step(r), row_steps, w); });
    for (const RowPanel& panel : row_panels()) {
      if (matrix.rows > panel.n) continue;
      expect_packed("pack_n", panel.pack_n, matrix, panel.n, col_steps, non_finite,
                    [&](int r, int c) { return in_n(r, c, col_steps, panel.n); });
    }
  }

  // Uses integers, so scores are exact. Some kernels compute the maxima during the matmuls if every lane sees all keys,
  // otherwise after them.
  void expect_largest_scores(const RowPanel& panel) {
    Random random(11);
    const int keys = 3 * isa_->step, d = 40, steps = rounded_up(d, isa_->k), n = panel.n;
    Matrix q(isa_->compute, n, d), k(isa_->compute, keys, d);
    const auto fill = [&](Matrix& matrix) {
      for (int r = 0; r < matrix.rows; ++r) {
        for (int c = 0; c < d; ++c) matrix.set(r, c, static_cast<float>(random.between(-3, 3)));
      }
    };
    fill(q), fill(k);
    Panels q_panel(*isa_, steps * n, n * isa_->k), k_panels(*isa_, steps * keys, isa_->m * isa_->k);
    EXPECT_FALSE(panel.pack_n({q.pointers.data(), n, d, isa_->compute, 1, q_panel.data()}));
    EXPECT_FALSE(isa_->pack_m({k.pointers.data(), keys, d, isa_->compute, 1, k_panels.data()}));
    CpuScoreOptions options{};
    options.plain = true, options.scale = options.unit = 0.125f;
    for (const int hidden : {0, 1, keys / 2}) {  // keys that the last lane does not see
      Lanes lanes{};
      lanes.count = n, lanes.hi_max = keys, lanes.hi_min = keys - hidden;
      std::fill_n(lanes.hi, n, keys), lanes.hi[n - 1] = keys - hidden;
      Guarded max(DType::fp32, n), sum(DType::fp32, n), scores(DType::fp32, keys * n);
      Panels probabilities(*isa_, keys * n, n * isa_->k);
      for (int lane = 0; lane < n; ++lane) max.set(lane, lane == 2 ? 1e6f : -kInf), sum.set(lane, 0);
      ForwardStep step{};
      step.k = k_panels.data(), step.block_keys = step.key_count = keys, step.d_steps = steps;
      step.q = q_panel.data(), step.lanes = &lanes, step.options = &options, step.dtype = isa_->compute;
      step.max = max.floats(), step.sum = sum.floats(), step.scores = scores.floats(),
      step.probabilities = probabilities.data();
      panel.forward_step(step);
      for (int lane = 0; lane < n; ++lane) {
        float largest = lane == 2 ? 1e6f : -kInf;
        for (int r = 0; r < lanes.hi[lane]; ++r) {
          float score = 0;
          for (int c = 0; c < d; ++c) score += q.at(lane, c) * k.at(r, c);
          largest = std::max(largest, score);
        }
        EXPECT_EQ(max[lane], largest) << "lane " << lane << ", " << hidden << " keys hidden";
      }
      EXPECT_TRUE(max.intact() && sum.intact() && scores.intact() && probabilities.intact());
    }
  }

  void expect_lanes_stored(const RowPanel& panel) {
    Random random(6);
    for (int round = 0; round < 90; ++round) {
      const DType dtype = random.pick({DType::fp32, DType::fp16, DType::bf16});
      const int lanes = static_cast<int>(random.between(1, panel.n)), cols = static_cast<int>(random.between(1, 70));
      Guarded c(DType::fp32, rounded_up(cols, isa_->m) * panel.n), divisor(DType::fp32, panel.n);
      const auto factor = static_cast<float>(random.normal());
      // Divided by a small number, 3e38 overflows, so finite operands also give non-finite results. Rounds without
      // `odd` draw only finite, normally distributed values.
      const bool odd = random.chance(0.7);
      for (int i = 0; i < cols * panel.n; ++i) {
        c.set(i, odd && random.chance(0.01) ? random.pick({kNaN, kInf, -kInf, 3e38f, -3e38f}) : random.normal());
      }
      for (int lane = 0; lane < panel.n; ++lane) {
        divisor.set(lane, odd && random.chance(0.02) ? random.pick({kInf, 1e-39f, 0.5f}) : random.normal());
      }
      std::vector<Guarded> rows;
      std::vector<void*> pointers;
      for (int lane = 0; lane < lanes; ++lane) pointers.push_back(rows.emplace_back(dtype, cols).data());
      panel.store_lanes({.c = c.floats(),
                         .rows = pointers.data(),
                         .lanes = lanes,
                         .cols = cols,
                         .factor = factor,
                         .divisor = divisor.floats(),
                         .dtype = dtype});
      for (int lane = 0; lane < lanes; ++lane) {
        Guarded& row = rows[static_cast<std::size_t>(lane)];
        EXPECT_TRUE(row.intact()) << "lane " << lane << " of " << cols << " columns";
        for (int i = 0; i < cols; ++i) {
          ASSERT_TRUE(same(row[i], round_to(dtype, c[i * panel.n + lane] * factor / divisor[lane])))
              << "lane " << lane << ", column " << i;
        }
      }
    }
  }

  const Isa* isa_ = nullptr;
};

TEST_P(CpuIsa, HasConsistentSizes) {
  EXPECT_EQ(isa_->compute, GetParam().compute);
  EXPECT_EQ(isa_->element, isa_->terms > 1 ? 2 * isa_->terms : static_cast<int>(size_of(isa_->compute)));
  EXPECT_EQ(isa_->step % isa_->m, 0);
  EXPECT_EQ(isa_->step % isa_->k, 0);
  EXPECT_EQ(isa_->k % isa_->p, 0);
  EXPECT_EQ(isa_->n % isa_->k, 0);  // a panel's lanes are the steps of the matmuls for dK and dV
  EXPECT_LE(isa_->n, kMaxLanes);
  EXPECT_LT(isa_->narrow.n, isa_->n);
  EXPECT_EQ(isa_->narrow.n % isa_->k, 0);
}

TEST_P(CpuIsa, PacksRandomShapes) {
  Random random(1);
  for (int round = 0; round < 120; ++round) {
    const int rows = static_cast<int>(random.between(1, random.pick({isa_->n, 3 * isa_->step + 5, 2 * isa_->n + 13})));
    const int cols = static_cast<int>(random.between(1, random.pick({9, 40, 150})));
    Matrix matrix(random.pick_from(sources()), rows, cols, random.chance(0.2) ? 0 : 1);
    matrix.fill(random);
    if (random.chance(0.3)) matrix.pointers[static_cast<std::size_t>(random.between(0, rows - 1))] = nullptr;
    if (random.chance(0.1)) std::fill(matrix.pointers.begin(), matrix.pointers.end(), nullptr);
    expect_all_packs(matrix, false);
  }
}

TEST_P(CpuIsa, PacksHeadDimensions) {
  Random random(2);
  for (const DType dtype : sources()) {
    for (const int cols : {1, 2, 3, 16, 64, 80, 96, 128, 192, 255, 256}) {
      for (const int rows : {isa_->n, 4 * isa_->step, 45}) {
        Matrix matrix(dtype, rows, cols);
        matrix.fill(random);
        expect_all_packs(matrix, false);
      }
    }
  }
}

TEST_P(CpuIsa, PackingReportsNonFiniteValues) {
  Random random(3);
  for (const DType dtype : sources()) {
    for (int round = 0; round < 60; ++round) {
      const int rows = static_cast<int>(random.between(1, isa_->n)), cols = static_cast<int>(random.between(1, 70));
      const int stride = random.chance(0.2) ? 0 : 1;
      Matrix matrix(dtype, rows, cols, stride);
      matrix.fill(random);
      matrix.set(static_cast<int>(random.between(0, rows - 1)),
                 stride == 0 ? 0 : static_cast<int>(random.between(0, cols - 1)), random.pick({kNaN, kInf, -kInf}));
      expect_all_packs(matrix, true);
    }
    if (isa_->terms > 1) continue;
    // Packing must not report the largest finite value as non-finite.
    Matrix matrix(dtype, isa_->n, 37);
    const float largest = dtype == DType::fp32   ? std::numeric_limits<float>::max()
                          : dtype == DType::fp16 ? 65504.0f
                                                 : bf16_to_float(0x7f7f);
    for (int c = 0; c < 37; ++c) matrix.set(c % isa_->n, c, c % 2 ? largest : -largest);
    expect_all_packs(matrix, false);
  }
}

TEST_P(CpuIsa, MatmulsOfNoPanelsWriteNothing) {
  for (const bool lanes : {false, true}) {
    const int width = lanes ? isa_->n : isa_->cols, tile = isa_->m * width;
    Panels left(*isa_, isa_->k * isa_->m, isa_->m * isa_->k), right(*isa_, isa_->k * width, width * isa_->k);
    std::vector<float> c(static_cast<std::size_t>(2 * tile), 7.0f);
    for (const bool accumulate : {false, true}) {
      (lanes ? isa_->matmul_n : isa_->matmul_cols)(
          {left.data(), isa_->k * isa_->m, right.data(), isa_->k, 0, c.data() + tile, accumulate});
    }
    EXPECT_EQ(c, std::vector<float>(c.size(), 7.0f));
  }
}

TEST_P(CpuIsa, MatmulsOfIntegersAreExact) {
  Random random(4);
  for (int round = 0; round < 150; ++round) {
    const bool lanes = random.chance(0.5);
    const int width = lanes ? isa_->n : isa_->cols, m = isa_->m;
    const int steps = isa_->k * static_cast<int>(random.between(0, random.pick({3, 20, 70})));
    const int panels = static_cast<int>(random.between(1, 9));
    const std::ptrdiff_t gap = random.chance(0.3) ? isa_->m * isa_->k : 0;
    const std::ptrdiff_t stride = static_cast<std::ptrdiff_t>(steps) * m + gap;
    Panels left(*isa_, stride * panels, m * isa_->k);
    Panels right(*isa_, static_cast<std::ptrdiff_t>(steps) * width, width * isa_->k);
    for (std::ptrdiff_t i = 0; i < stride * panels; ++i) left.set(i, small_integer(random));
    for (std::ptrdiff_t i = 0; i < static_cast<std::ptrdiff_t>(steps) * width; ++i) right.set(i, small_integer(random));
    const std::vector<float> left_values = left.values(stride * panels), right_values = right.values(steps * width);
    const bool accumulate = random.chance(0.5);
    Guarded c(DType::fp32, panels * m * width);
    std::vector<float> expected;
    for (int i = 0; i < panels * m * width; ++i) {
      c.set(i, accumulate ? small_integer(random) : kNaN);
      float sum = accumulate ? c[i] : 0;
      const int panel = i / (m * width), r = i / width % m, column = i % width;
      for (int t = 0; t < steps; ++t) {
        sum += left_values[static_cast<std::size_t>(panel * stride + in_m(r, t, steps))] *
               right_values[static_cast<std::size_t>(in_n(column, t, steps, width))];
      }
      expected.push_back(sum);
    }
    (lanes ? isa_->matmul_n : isa_->matmul_cols)({.m = left.data(),
                                                  .m_stride = stride,
                                                  .n = right.data(),
                                                  .steps = steps,
                                                  .panels = panels,
                                                  .c = c.floats(),
                                                  .accumulate = accumulate});
    EXPECT_TRUE(c.intact());
    for (int i = 0; i < panels * m * width; ++i) {
      ASSERT_EQ(c[i], expected[static_cast<std::size_t>(i)])
          << (lanes ? "matmul_n" : "matmul_cols") << ", " << steps << " steps, " << panels << " panels, tile "
          << i / (m * width) << ", row " << i / width % m << ", column " << i % width;
    }
  }
}

TEST_P(CpuIsa, MatmulsOfRealNumbersAreAccurate) {
  Random random(5);
  const int steps = rounded_up(256, isa_->k), m = isa_->m, n = isa_->n;
  Panels left(*isa_, steps * m, m * isa_->k), right(*isa_, steps * n, n * isa_->k);
  Guarded c(DType::fp32, m * n);
  for (int i = 0; i < steps * m; ++i) left.set(i, random.normal());
  for (int i = 0; i < steps * n; ++i) right.set(i, random.normal());
  isa_->matmul_n({.m = left.data(),
                  .m_stride = 0,
                  .n = right.data(),
                  .steps = steps,
                  .panels = 1,
                  .c = c.floats(),
                  .accumulate = false});
  for (int r = 0; r < m; ++r) {
    for (int column = 0; column < n; ++column) {
      double sum = 0, magnitude = 0;
      for (int t = 0; t < steps; ++t) {
        const double term = static_cast<double>(left[in_m(r, t, steps)]) * right[in_n(column, t, steps, n)];
        sum += term;
        magnitude += std::abs(term);
      }
      EXPECT_NEAR(c[r * n + column], sum, magnitude * 1e-6);
    }
  }
}

// Split floats keep every bit of fp32, and their matmuls lose no more than fp32 arithmetic. The test compares random
// values of full fp32 precision with float64. 128 steps reveal a missing part, or an accumulator that starts with C.
TEST_P(CpuIsa, SplitFloatsMultiplyAsFp32) {
  if (isa_->terms == 1) GTEST_SKIP() << "its elements are not split";
  Random random(9);
  const int steps = rounded_up(128, isa_->k), m = isa_->m, n = isa_->n;
  Matrix rows(DType::fp32, m, steps), lanes(DType::fp32, n, steps);
  rows.fill(random);
  lanes.fill(random);
  Panels left(*isa_, steps * m, m * isa_->k), right(*isa_, steps * n, n * isa_->k);
  Guarded c(DType::fp32, m * n);
  EXPECT_FALSE(isa_->pack_m({rows.pointers.data(), m, steps, DType::fp32, 1, left.data()}));
  EXPECT_FALSE(isa_->pack_n({lanes.pointers.data(), n, steps, DType::fp32, 1, right.data()}));
  isa_->matmul_n({left.data(), 0, right.data(), steps, 1, c.floats(), false});
  double worst = 0, total = 0;
  for (int r = 0; r < m; ++r) {
    for (int lane = 0; lane < n; ++lane) {
      double sum = 0, square = 0;
      for (int t = 0; t < steps; ++t) {
        const double term = static_cast<double>(rows.at(r, t)) * lanes.at(lane, t);
        sum += term;
        square += term * term;
      }
      const double error = std::abs(c[r * n + lane] - sum) / std::sqrt(square);  // relative to the root sum of squares
      worst = std::max(worst, error);
      total += error;
    }
  }
  EXPECT_LT(worst, 8 * 0x1p-24);
  EXPECT_LT(total / (m * n), 1.5 * 0x1p-24);
}

// Packing reports values that split floats cannot represent, which are tiny or huge. Zeros are representable.
TEST_P(CpuIsa, PackingReportsValuesThatCannotBeSplit) {
  if (isa_->terms == 1) GTEST_SKIP() << "its elements are not split";
  Random random(10);
  for (const auto& [size, reported] : {std::pair{0x1p-60f, true},
                                       {0x1p-42f, true},
                                       {0x1p-38f, false},
                                       {0x1p19f, false},
                                       {0x1p21f, true},
                                       {0x1p100f, true},
                                       {std::numeric_limits<float>::max(), true},
                                       {std::numeric_limits<float>::denorm_min(), true},
                                       {0.0f, false}}) {
    Matrix matrix(DType::fp32, isa_->n, 45);
    for (int r = 0; r < matrix.rows; ++r) {
      for (int c = 0; c < matrix.cols; ++c) matrix.set(r, c, 0.5f * size * static_cast<float>(random.uniform()));
    }
    matrix.set(static_cast<int>(random.between(0, matrix.rows - 1)), static_cast<int>(random.between(0, 44)), -size);
    Panels out(*isa_, 2L * isa_->n * rounded_up(45, isa_->k), isa_->m * isa_->k);
    for (auto* pack : {isa_->pack_m, isa_->pack_mt, isa_->pack_n, isa_->pack_nt}) {
      EXPECT_EQ(pack({matrix.pointers.data(), matrix.rows, 45, DType::fp32, 1, out.data()}), reported) << size;
    }
  }
}

TEST_P(CpuIsa, ForwardStepFindsTheRowMaxima) {
  for (const RowPanel& panel : row_panels()) expect_largest_scores(panel);
}

TEST_P(CpuIsa, StoresLanes) {
  for (const RowPanel& panel : row_panels()) expect_lanes_stored(panel);
}

TEST_P(CpuIsa, StoresColumns) {
  Random random(7);
  for (int round = 0; round < 90; ++round) {
    const DType dtype = random.pick({DType::fp32, DType::fp16, DType::bf16});
    const int count = static_cast<int>(random.between(1, 20)), cols = static_cast<int>(random.between(1, 70));
    const int width = isa_->cols, panels = rounded_up(cols, width) / width;
    const std::ptrdiff_t stride = (count + random.between(0, 5)) * width;
    Guarded c(DType::fp32, panels * stride);
    for (std::ptrdiff_t i = 0; i < panels * stride; ++i) c.set(i, random.chance(0.01) ? kInf : random.normal());
    std::vector<Guarded> rows;
    std::vector<void*> pointers;
    for (int r = 0; r < count; ++r) pointers.push_back(rows.emplace_back(dtype, cols).data());
    const float factor = random.normal();
    isa_->store_cols({.c = c.floats(),
                      .panel_stride = stride,
                      .rows = pointers.data(),
                      .count = count,
                      .cols = cols,
                      .factor = factor,
                      .dtype = dtype});
    for (int r = 0; r < count; ++r) {
      Guarded& row = rows[static_cast<std::size_t>(r)];
      EXPECT_TRUE(row.intact()) << "row " << r << " of " << cols << " columns";
      for (int i = 0; i < cols; ++i) {
        const float value = c[i / width * stride + r * width + i % width] * factor;
        ASSERT_TRUE(same(row[i], round_to(dtype, value))) << "row " << r << ", column " << i;
      }
    }
  }
}

TEST_P(CpuIsa, DotRowsIsExact) {
  Random random(8);
  for (int round = 0; round < 60; ++round) {
    const DType dtype = random.pick({DType::fp32, DType::fp16, DType::bf16});
    const int count = static_cast<int>(random.between(1, 20)), cols = static_cast<int>(random.between(1, 150));
    Matrix a(dtype, count, cols, random.chance(0.3) ? 0 : 1), b(dtype, count, cols);
    Guarded out(DType::fp32, count);
    for (int r = 0; r < count; ++r) {
      for (int c = 0; c < cols; ++c) {
        if (c == 0 || a.col_stride == 1) a.set(r, c, small_integer(random));
        b.set(r, c, small_integer(random));
      }
    }
    isa_->dot_rows({.a = a.pointers.data(),
                    .b = b.pointers.data(),
                    .count = count,
                    .cols = cols,
                    .dtype = dtype,
                    .a_col_stride = a.col_stride,
                    .out = out.floats()});
    EXPECT_TRUE(out.intact());
    for (int r = 0; r < count; ++r) {
      float sum = 0;
      for (int c = 0; c < cols; ++c) sum += a.at(r, c) * b.at(r, c);
      ASSERT_EQ(out[r], sum) << "row " << r << " of " << cols << " columns";
    }
  }
}

// Returns all tables, including those for which this machine lacks the instruction set (skipped).
std::vector<Table> all_tables() {
  std::vector<Table> list;
  for (const InstructionSet& one : instruction_sets()) {
    for (const DType compute : {DType::fp32, DType::bf16}) {
      if (!one.available || find_isa(one.name, compute)) list.push_back({one.name, compute});
    }
  }
  return list;
}

INSTANTIATE_TEST_SUITE_P(Tables, CpuIsa, testing::ValuesIn(all_tables()),
                         [](const auto& info) { return title(info.param); });

}  // namespace
}  // namespace strobe::cpu
