// Bad input as the ranks of a job find it, mostly all of them the same: the launcher collects it and tells it once.
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

  // "all 4 ranks: --steps x: ...", "ranks 0, 2: ...; rank 1: ..."; empty where no rank has told of any.
  std::string text(int ranks) const;

 private:
  int descriptor_;
};

// First of all in a program: takes the launcher's file from the environment, so that it is this process's alone and not
// that of whatever it starts.
void take_launchers_file();
void pass_launchers_file_on();  // to the rank that this process becomes

// On a rank: whether the launcher has it now. Otherwise, as without a launcher, it is the caller's to tell.
bool refuse_to_launcher(std::string_view line);

}  // namespace strobe::cli
