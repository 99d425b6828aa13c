// Collects the bad-input errors of a job's ranks. The errors are usually the same on all ranks; the launcher reports
// each once.
#pragma once

#include <string>
#include <string_view>

namespace strobe::cli {

class RankErrors {
 public:
  // Creates the file in which ranks write their errors. Sets an environment variable with its path for all processes
  // that this one starts later.
  RankErrors();
  ~RankErrors();
  RankErrors(const RankErrors&) = delete;
  RankErrors& operator=(const RankErrors&) = delete;

  // Returns "all 4 ranks: --steps x: ..." or "ranks 0, 2: ...; rank 1: ..."; empty if no rank has reported an error.
  std::string text(int ranks) const;

 private:
  int descriptor_;
};

// Sets the environment variable again that take_launchers_file() (cli/verbs.h) has unset. Call it in a child that
// becomes a rank by exec.
void pass_launchers_file_on();

}  // namespace strobe::cli
