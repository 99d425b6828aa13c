// Collects the bad-input errors of a job's ranks. They are usually the same on all ranks; the launcher reports each
// once.
#pragma once

#include <string>
#include <string_view>

namespace strobe::cli {

class RankErrors {
 public:
  RankErrors();  // sets an environment variable that names the collecting file to the processes started from now on
  ~RankErrors();
  RankErrors(const RankErrors&) = delete;
  RankErrors& operator=(const RankErrors&) = delete;

  // Returns "all 4 ranks: --steps x: ..." or "ranks 0, 2: ...; rank 1: ..."; empty if no rank has reported an error.
  std::string text(int ranks) const;

 private:
  int descriptor_;
};

// Sets the environment variable of the collecting file again, for the rank that this process becomes by exec.
void pass_launchers_file_on();

}  // namespace strobe::cli
