// Formats the output lines of solve and hw4.
#include "cli/course/solve_lines.h"

#include <fmt/format.h>

#include "app/terminal.h"

namespace strobe::cli {

solve::Solved solve_with_signal_message(std::string_view command, const std::string& input, const std::string& output,
                                        const solve::SolveOptions& options) {
  set_signal_message(fmt::format("{}ended by a signal; nothing was written", command));
  solve::Solved solved = solve::solve_file(input, output, options);
  set_signal_message(fmt::format("{}ended by a signal", command));  // the output may already be written
  return solved;
}

std::string solve_lines(const solve::Solved& solved) {
  const solve::ProblemSize& size = solved.size;
  return fmt::format("(B, N, d): ({}, {}, {})\nTime: {:.3f} seconds\n", size.batch, size.rows, size.dim,
                     solved.times.busy);
}

std::string timing_lines(const solve::Solved& solved, double start) {
  const solve::StageTimes& times = solved.times;
  std::string text =
      fmt::format("{} on {}; stages, which overlap:\n", solved.kernel, solved.device == Device::cuda ? "cuda" : "cpu");
  const auto add = [&](const char* name, double seconds) { text += fmt::format("  {:<18}{:.4f} s\n", name, seconds); };
  add("read", times.read);
  add("host-to-device", times.to_device);
  add("kernel", times.kernel);
  add("device-to-host", times.from_device);
  add("write", times.write);
  text += "total, file to file:\n";
  add("total", times.total);
  add("of which buffers", times.buffers);
  text += "not counted:\n";
  add("process start", start);
  add("context creation", times.context);
  add("fsync", solved.sync);
  return text;
}

}  // namespace strobe::cli
