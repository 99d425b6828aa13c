// The table of cases, and numbers from Philox: element i of tensor t is a pure function of (t, i).
#include "lab/case.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/fail.h"
#include "core/philox.h"
#include "core/printable.h"
#include "device/host/thread_pool.h"

namespace strobe::lab {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 36;
constexpr std::uint64_t kSeed = 28;

void fill(std::vector<float>& values, std::uint32_t tensor) {
  constexpr std::int64_t kChunk = 1 << 16;
  const auto count = static_cast<std::int64_t>(values.size());
  parallel_for(available_cores(), (count + kChunk - 1) / kChunk, [&](int, std::int64_t chunk) {
    for (std::int64_t i = chunk * kChunk; i < std::min(count, (chunk + 1) * kChunk); i += 4) {
      const auto group = static_cast<std::uint64_t>(i / 4);
      const auto words =
          philox({tensor, static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32), 0}, kSeed);
      for (std::int64_t j = 0; j < std::min<std::int64_t>(4, count - i); ++j) {
        const auto unit = static_cast<float>(words[static_cast<std::size_t>(j)] >> 8) * 0x1p-24f;  // [0, 1)
        values[static_cast<std::size_t>(i + j)] = 6 * unit - 3;
      }
    }
  });
}

}  // namespace

std::span<const Case> course_cases() {
  static const std::vector<Case> kCases = {
      {"t01", 320, 128, 32},  {"t02", 160, 128, 64},  {"t03", 160, 256, 32},   {"t04", 80, 256, 64},
      {"t05", 80, 512, 32},   {"t06", 40, 512, 64},   {"t07", 40, 1024, 32},   {"t08", 20, 1024, 64},
      {"t09", 20, 2048, 32},  {"t10", 10, 2048, 64},  {"t11", 13600, 128, 32}, {"t12", 9600, 128, 64},
      {"t13", 6400, 256, 32}, {"t14", 2000, 256, 64}, {"t15", 2000, 512, 32},  {"t16", 800, 512, 64},
      {"t17", 800, 1024, 32}, {"t18", 300, 1024, 64}, {"t19", 300, 2048, 32},  {"t20", 100, 2048, 64},
      {"t21", 500, 2048, 32}, {"t22", 500, 2048, 64}, {"t23", 100, 4096, 32},  {"t24", 100, 4096, 64},
      {"t25", 30, 8192, 32},  {"t26", 10, 8192, 64},  {"t27", 10, 16384, 32},  {"t28", 4, 16384, 64},
      {"t29", 4, 32768, 32},  {"t30", 2, 32768, 64}};
  return kCases;
}

Case parse_case(std::string_view text, double scale) {
  const auto refuse = [&] {
    fail(ErrorCode::invalid_argument, "case {}: valid: t01 to t30, or B,N,d such as 4,16384,64 (up to 2^36 elements)",
         printable_value(text));
  };
  if (!(scale > 0 && scale <= 1))
    fail(ErrorCode::invalid_argument, "scale {}: valid: above 0, at most 1 (a share of the work)", scale);
  Case found;
  for (const Case& one : course_cases()) {
    if (one.name == text) found = one;
  }
  if (found.name.empty()) {
    const char* at = text.data();
    const char* const end = at + text.size();
    for (int* number : {&found.batch, &found.rows, &found.dim}) {
      const auto [next, code] = std::from_chars(at, end, *number);
      const bool last = number == &found.dim;
      if (code != std::errc() || *number < 1 || (last ? next != end : next == end || *next != ',')) refuse();
      at = next + 1;
    }
    if (1.0 * found.batch * found.rows * found.dim > static_cast<double>(kMostElements)) refuse();
  }
  if (scale == 1) return found;
  const double wanted = scale * found.scores();
  found.batch = std::max(1, static_cast<int>(found.batch * scale));
  while (found.scores() > wanted && found.rows >= 256) found.rows /= 2;
  if (!found.name.empty()) found.name += " scaled";
  return found;
}

Inputs::Inputs(const Case& chosen) : size(chosen) {
  const auto elements = static_cast<std::size_t>(std::int64_t{size.batch} * size.rows * size.dim);
  std::uint32_t tensor = 0;
  for (std::vector<float>* values : {&q, &k, &v}) {
    values->resize(elements);
    fill(*values, tensor++);
  }
}

}  // namespace strobe::lab
