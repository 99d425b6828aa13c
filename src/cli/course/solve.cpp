// Implements `strobe solve INPUT OUTPUT`: reads a file of batches of Q, K, V and writes a file of outputs.
#include "solve/solve.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "app/help.h"
#include "app/options.h"
#include "app/terminal.h"
#include "cli/course/lab_program.h"
#include "cli/course/solve_lines.h"
#include "cli/verbs.h"
#include "core/fail.h"
#include "measure/process_start.h"
#include "process/spawn.h"

namespace strobe::cli {
namespace {

constexpr const char* kSolveIntroduction =
    "usage: strobe solve INPUT OUTPUT [--flag value ...]      also: hw4 INPUT OUTPUT\n\n"
    "Computes non-causal attention with scale 1/sqrt(d) in fp32, one head per batch. Both files are little-endian:\n"
    "  INPUT   int32 B, N, d; then for each batch Q, K, V, float32 [N][d] each\n"
    "  OUTPUT  for each batch O, float32 [N][d]; appears whole or not at all\n"
    "B, N and d are at least 1. Files larger than CPU or GPU memory are streamed.\n\n"
    "  strobe solve t30 t30.out --timing\n\n";

std::vector<std::string> kernel_names_of(std::optional<Device> device) {
  std::vector<std::string> names;
  for (const Device one : {Device::cpu, Device::cuda}) {
    if (device && *device != one) continue;
    for (const std::string& name : kernel_names(one)) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

}  // namespace

int run_solve(Arguments arguments) {
  const double start = seconds_since_process_start();
  solve::SolveOptions options;
  std::vector<std::string> files;
  std::string kernel, rung;
  bool timing = false;
  OptionTable table;
  table.take_words([&](std::string_view word) { files.emplace_back(word); });
  table.add("device", "cpu|cuda", "device (default: cuda if a GPU can be used, else cpu)",
            [&](std::string_view flag, std::string_view value) {
              options.device = parse_word(flag, value, {"cpu", "cuda"}) == "cuda" ? Device::cuda : Device::cpu;
            });
  table.add("impl", "NAME",
            "force a kernel of the library, such as flash2 or frugal (default: the first that supports the problem; "
            "frugal if d > 256)",
            into(kernel, parse_text), {"kernel"});
  table.add("rung", "NAME", "compute with a rung of the ladder instead of the library (strobe-lab --list)",
            into(rung, parse_text));
  table.add(make_switch("timing", "also print the time of each stage, and times outside the total", timing));
  table.check_with([&] {
    if (files.size() == 2) return;
    fail(ErrorCode::invalid_argument, "solve takes two files, INPUT and OUTPUT; {} given", files.size());
  });
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print_help(kSolveIntroduction + table.help());
    return kFine;
  }
  if (!rung.empty()) {
    if (!kernel.empty() || options.device) {
      fail(ErrorCode::invalid_argument, "--rung {}: a rung fixes the kernel and the device; leave out {}", rung,
           options.device ? "--device" : "--impl");
    }
    std::vector<std::string> words{lab_program(), "--rung", rung, "--input", files[0], "--output", files[1]};
    if (timing) words.emplace_back("--timing");
    become(words);
  }
  if (!kernel.empty()) options.kernel = parse_word("--impl", kernel, kernel_names_of(options.device));
  const solve::Solved solved = solve_with_signal_message("solve: ", files[0], files[1], options);
  print(solve_lines(solved));
  if (timing) print(timing_lines(solved, start));
  return kFine;
}

}  // namespace strobe::cli
