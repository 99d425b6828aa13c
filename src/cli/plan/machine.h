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
  std::string compute, links;  // where the figures are from, for people

  // A line for charts: "h100: 396 TFLOP/s a device; links 450 GB/s in nodes of 8, 50.0 between".
  std::string text() const;
};

// Its links and memory alone, of so many devices: one needs no links, and those of one node none between nodes.
// Measures nothing. Throws Error(invalid_argument) for files that do not serve and for figures that are missing.
PlanMachine plan_links(const MachineFlags& flags, std::int64_t devices);

// All of it, links first: measures where --machine here leaves something open. Throws likewise.
PlanMachine plan_machine(const MachineFlags& flags, lm::Precision precision, std::int64_t devices);

// `strobe plan --check`: measured rows, each with what the formulas of a plan give for it.
// Prints the table and the errors' median; the exit code. A step is held against the machine in its own precision.
// Throws Error(invalid_argument) for rows that nothing is said of.
int check_plan(const PlanOptions& options);

}  // namespace strobe::cli
