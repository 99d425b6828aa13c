// Errors of bad input from the ranks of a job, usually the same on all. The launcher collects and reports them once.
#pragma once

#include <string>
#include <string_view>

namespace strobe::cli {

class RankErrors {
 public:
  RankErrors();  // sets the environment variable that names the file in processes started from here on
  ~RankErrors();
  RankErrors(const RankErrors&) = delete;
  RankErrors& operator=(const RankErrors&) = delete;

  // "all 4 ranks: --steps x: ...", "ranks 0, 2: ...; rank 1: ..."; empty if no rank has reported any.
  std::string text(int ranks) const;

 private:
  int descriptor_;
};

void pass_launchers_file_on();  // hands the file to the rank that this process becomes by exec

}  // namespace strobe::cli
