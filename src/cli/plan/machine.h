// The machine of a plan: named, measured here, fitted to result files, or given flag by flag.
#pragma once

#include <cstdint>
#include <string>

#include "cli/plan/options.h"
#include "lm/plan/machine.h"

namespace strobe::cli {

struct PlanMachine {
  lm::Machine machine;
  std::string name;            // "h100"
  std::string compute, links;  // sources of the figures, for people

  // One line for charts: "h100: 396 TFLOP/s a device; links 450 GB/s in nodes of 8, 50.0 between".
  std::string text() const;
};

// Sets only links and memory, for `devices` devices. One device needs no links; devices of one node need no links
// between nodes. Measures nothing. Throws Error(invalid_argument) for unusable files and missing figures.
PlanMachine plan_links(const MachineFlags& flags, std::int64_t devices);

// Sets all fields, links first. With --machine here, measures the rates that no flag sets. Throws like plan_links.
PlanMachine plan_machine(const MachineFlags& flags, lm::Precision precision, std::int64_t devices);

// `strobe plan --check`: compares measured rows with the formulas of a plan. Prints the table and the median error and
// returns the exit code. Each step is compared with the machine in the step's precision. Throws Error(invalid_argument)
// for rows that the formulas do not cover.
int check_plan(const PlanOptions& options);

}  // namespace strobe::cli
