// Implements solve_file(). The file stores Q, K and V batch by batch. A rung needs one array per tensor, so
// solve_file() copies them.
#include "lab/solve_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "core/fail.h"
#include "measure/clock.h"
#include "solve/case_files.h"
#include "solve/problem_file.h"

namespace strobe::lab {

std::string solve_file(const Rung& rung, const std::string& input, const std::string& output, bool timing) {
  const double start = now_seconds();
  const solve::ProblemFile file(input);
  const solve::ProblemSize& size = file.size();
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  if (size.batch > kMost || size.rows > kMost || size.dim > kMost)
    fail(ErrorCode::unsupported, "{}: ({}, {}, {}): a rung supports sizes up to 2^31 - 1", input, size.batch, size.rows,
         size.dim);
  RungProblem problem{static_cast<int>(size.batch), static_cast<int>(size.rows), static_cast<int>(size.dim)};
  const std::string refusal = refusal_of(rung, problem);
  if (!refusal.empty()) fail(ErrorCode::unsupported, "rung {}: {}", rung.name, refusal);

  solve::check_output_place(input, output);
  solve::AnswerFile answer(output, size);
  const auto total = static_cast<std::size_t>(size.total());
  std::vector<float> q(total), k(total), v(total), o(total);
  for (std::int64_t b = 0; b < size.batch; ++b) {
    const std::int64_t at = b * size.elements();
    std::copy_n(file.q(b), size.elements(), q.data() + at);
    std::copy_n(file.k(b), size.elements(), k.data() + at);
    std::copy_n(file.v(b), size.elements(), v.data() + at);
  }
  problem.q = q.data();
  problem.k = k.data();
  problem.v = v.data();
  const double read = now_seconds() - start;
  const double begun = now_seconds();
  const Split split = rung.run(problem, o.data());
  const double computed = now_seconds();
  answer.write(o.data(), size.total());
  answer.commit();
  const double write = now_seconds() - computed;

  std::string text =
      fmt::format("(B, N, d): ({}, {}, {})\nTime: {:.3f} seconds\n", size.batch, size.rows, size.dim, computed - begun);
  if (timing) {
    text += fmt::format(
        "read {:.3f}, setup {:.3f}, host to device {:.3f}, kernel {:.3f}, device to host {:.3f}, write "
        "{:.3f} seconds\n",
        read, split.allocate + split.create + split.pin, split.to_device, split.kernel, split.to_host, write);
  }
  return text;
}

}  // namespace strobe::lab
