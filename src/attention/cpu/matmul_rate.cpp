// Implements matmul_rate.h: times Isa::matmul_n on matmuls of an attention block: kRows keys, kSteps steps and kPanels
// panels of query lanes. As in flash2, the left operand stays in L2 and one panel of the right operand in L1.
#include "attention/cpu/matmul_rate.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "attention/cpu/isa.h"
#include "core/clock.h"
#include "core/divide.h"
#include "core/half.h"
#include "device/host/allocator.h"
#include "device/host/instruction_sets.h"
#include "device/host/thread_pool.h"

namespace strobe {
namespace {

constexpr int kRows = 256;
constexpr int kSteps = 256;
constexpr int kPanels = 16;
// Seconds per measurement: long compared with the clock's resolution, shorter than a scheduler time slice.
constexpr double kWindow = 1e-3;

// The packed operands and the output of one thread.
class Matmul {
 public:
  Matmul(const cpu::Isa& isa, DType dtype)
      : isa_(isa),
        rows_(static_cast<int>(round_up(kRows, isa.m))),
        steps_(static_cast<int>(round_up(kSteps, isa.k))),
        element_(static_cast<std::size_t>(isa.element)),
        m_(elements(rows_) * element_),
        n_(elements(kPanels * isa.n) * element_),
        c_(static_cast<std::size_t>(rows_) * static_cast<std::size_t>(isa.n) * sizeof(float)) {
    const std::size_t width = size_of(dtype);
    Buffer source(static_cast<std::size_t>(kRows) * kSteps * width);
    for (std::int64_t i = 0; i < std::int64_t{kRows} * kSteps; ++i) {
      store_element(source.data(), dtype, i, static_cast<float>(i * 40503 % 2003) * 1e-3f - 1);
    }
    std::vector<const void*> rows;
    for (int r = 0; r < kRows; ++r) rows.push_back(source.as<char>() + static_cast<std::size_t>(r) * kSteps * width);
    isa.pack_m(
        {.rows = rows.data(), .count = kRows, .cols = kSteps, .dtype = dtype, .col_stride = 1, .out = m_.data()});
    for (int panel = 0; panel < kPanels; ++panel) {
      isa.pack_n({.rows = rows.data() + panel % 8,
                  .count = isa.n,
                  .cols = kSteps,
                  .dtype = dtype,
                  .col_stride = 1,
                  .out = n_panel(panel)});
    }
  }

  void run() const {
    for (int panel = 0; panel < kPanels; ++panel) {
      isa_.matmul_n({.m = m_.data(),
                     .m_stride = static_cast<std::ptrdiff_t>(steps_) * isa_.m,
                     .n = n_panel(panel),
                     .steps = steps_,
                     .panels = rows_ / isa_.m,
                     .c = c_.as<float>(),
                     .accumulate = false});
    }
  }

  double flops() const { return 2.0 * rows_ * steps_ * isa_.n * kPanels; }

 private:
  std::size_t elements(int lines) const { return static_cast<std::size_t>(lines) * static_cast<std::size_t>(steps_); }
  char* n_panel(int panel) const { return n_.as<char>() + elements(panel * isa_.n) * element_; }

  const cpu::Isa& isa_;
  int rows_, steps_;
  std::size_t element_;
  Buffer m_, n_, c_;
};

}  // namespace

std::optional<double> matmul_rate(DType dtype, int threads, double seconds) {
  if (!instruction_set_refusal(forced_instruction_set()).empty()) return std::nullopt;
  const cpu::Isa& isa = cpu::choose_isa(dtype, forced_instruction_set());
  std::vector<double> rates(static_cast<std::size_t>(threads));
  parallel(threads, [&](int thread) {
    const Matmul matmul(isa, dtype);
    matmul.run();
    double best = 0;
    const double start = now_seconds();
    for (double begin = start, end = start; begin - start < seconds; begin = end) {
      int calls = 0;
      do {
        matmul.run();
        ++calls;
        end = now_seconds();
      } while (end - begin < kWindow);
      best = std::max(best, calls * matmul.flops() / (end - begin));
    }
    rates[static_cast<std::size_t>(thread)] = best;
  });
  double total = 0;
  for (const double rate : rates) total += rate;
  return total;
}

std::string instruction_set_for(DType dtype) {
  const char* forced = forced_instruction_set();
  return instruction_set_refusal(forced).empty() ? cpu::choose_isa(dtype, forced).name : "none";
}

}  // namespace strobe
