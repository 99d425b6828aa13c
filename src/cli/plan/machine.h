// The machine that a plan assumes. Its rates come from a data sheet, measurements, result files or flags.
#pragma once

#include <cstdint>
#include <string>

#include "cli/plan/options.h"
#include "lm/plan/machine.h"

namespace strobe::cli {

struct PlanMachine {
  lm::Machine machine;
  std::string name;            // name of a known machine, or "here"
  std::string compute, links;  // rates and their sources, as text

  // One line for charts: "h100: 396 TFLOP/s per device; links 450 GB/s in nodes of 8, 50.0 between".
  std::string text() const;
};

// Returns a machine of `devices` devices with only its links and memory set. One device needs no links, and devices of
// one node need no links between nodes. Measures nothing. Throws Error(invalid_argument) for unusable files and missing
// figures.
PlanMachine plan_links(const MachineFlags& flags, std::int64_t devices);

// Returns a machine with all fields set. With --machine here, measures the rates that no flag sets. Throws as
// plan_links() does.
PlanMachine plan_machine(const MachineFlags& flags, lm::Precision precision, std::int64_t devices);

// Implements `strobe plan --check`: compares measured rows with the formulas of a plan, prints the table and the median
// errors, and returns the exit code. Uses the machine's rates in each step's precision. Throws Error(invalid_argument)
// for rows that the formulas do not cover.
int check_plan(const PlanOptions& options);

}  // namespace strobe::cli
