// Parses the cases of the course and generates their inputs with the generator of `strobe cases gen`.
#include "lab/case.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/case_text.h"
#include "core/fail.h"
#include "core/printable.h"
#include "solve/case_files.h"
#include "solve/cases.h"

namespace strobe::lab {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 36;
constexpr std::uint64_t kSeed = 28;

// Converts "b4 s16384 d64" to "4,16384,64"; returns other texts unchanged.
std::string comma_text(std::string_view text) {
  if (!text.starts_with('b')) return std::string(text);
  std::string sizes[3];
  for (const CaseWord& word : case_words(text)) {
    const std::size_t index = word.name == "batch_size" ? 0 : word.name == "seq_len" ? 1 : 2;
    const bool is_size = index < 2 || word.name == "head_dim";
    // An invalid or repeated size stays in the text, which is then refused.
    sizes[index] += (sizes[index].empty() ? "" : ",") + (is_size ? word.value : word.name);
  }
  return sizes[0] + "," + sizes[1] + "," + sizes[2];
}

}  // namespace

std::span<const CourseCase> course_cases() {
  static const std::vector<CourseCase> kCases = [] {
    std::vector<CourseCase> cases;
    for (const auto& [name, group, size] : solve::all_cases()) {
      cases.push_back({name, static_cast<int>(size.batch), static_cast<int>(size.rows), static_cast<int>(size.dim)});
    }
    return cases;
  }();
  return kCases;
}

CourseCase parse_case(std::string_view text, double scale) {
  const auto refuse = [&] {
    fail(ErrorCode::invalid_argument,
         "case {}: valid: t01 to t30, or B,N,d such as 4,16384,64, or b4 s16384 d64 (up to 2^36 elements)",
         printable_value(text));
  };
  if (!(scale > 0 && scale <= 1))
    fail(ErrorCode::invalid_argument, "--scale {}: valid: above 0, at most 1 (a share of the work)", scale);
  CourseCase found;
  for (const CourseCase& one : course_cases()) {
    if (one.name == text) found = one;
  }
  if (found.name.empty()) {
    const std::string sizes = comma_text(text);
    const char* at = sizes.data();
    const char* const end = at + sizes.size();
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

CourseCase fitting_case(const CourseCase& full, double limit,
                        const std::function<double(const CourseCase&)>& seconds_of) {
  CourseCase probe{"", 1, std::min(128, full.rows), full.dim};
  while (true) {
    const double seconds_per_score = seconds_of(probe) / probe.scores();
    if (seconds_per_score * full.scores() <= limit) return full;
    CourseCase next = probe;
    next.rows = std::min(2 * probe.rows, full.rows);
    if (next.rows == probe.rows) next.batch = std::min(2 * probe.batch, full.batch);
    if (next.scores() == probe.scores() || seconds_per_score * next.scores() > limit) return probe;
    probe = next;
  }
}

Inputs::Inputs(const CourseCase& chosen) : size(chosen) {
  const auto elements = static_cast<std::size_t>(std::int64_t{size.batch} * size.rows * size.dim);
  std::uint64_t first = 0;
  for (std::vector<float>* values : {&q, &k, &v}) {
    values->resize(elements);
    solve::uniform_values(kSeed, first, static_cast<std::int64_t>(elements), values->data());
    first += elements;
  }
}

}  // namespace strobe::lab
