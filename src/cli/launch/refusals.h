// Errors of bad input from the ranks of a job, mostly the same on all. The launcher collects and reports them once.
#pragma once

#include <string>
#include <string_view>

namespace strobe::cli {

class RankRefusals {
 public:
  RankRefusals();  // names itself in the environment of the processes that are started from here on
  ~RankRefusals();
  RankRefusals(const RankRefusals&) = delete;
  RankRefusals& operator=(const RankRefusals&) = delete;

  // "all 4 ranks: --steps x: ...", "ranks 0, 2: ...; rank 1: ..."; empty if no rank has reported any.
  std::string text(int ranks) const;

 private:
  int descriptor_;
};

// Called first in a program: removes the launcher's file from the environment, so that child processes do not inherit
// it.
void take_launchers_file();
void pass_launchers_file_on();  // to the rank that this process becomes by exec

// On a rank: true if the line reached the launcher. Otherwise the caller prints it.
bool refuse_to_launcher(std::string_view line);

}  // namespace strobe::cli
