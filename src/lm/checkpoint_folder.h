// The folder of a training run: step-00000100.safetensors and so on, of which the newest few stay, steps.jsonl
// (step_log.h), run.json (upkeep.h), and a lock, so that two processes do not train in one.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace strobe::lm {

class Checkpoint;

std::string upkeep_path(const std::string& folder);  // run.json

class CheckpointFolder {
 public:
  static constexpr std::int64_t kAllGood = std::numeric_limits<std::int64_t>::max();
  enum class Use { fresh, resume };
  // Made where it is not there yet (fresh). Throws Error(invalid_argument) with `path` where it holds anything but
  // temporary files of a process that was killed (fresh), is not there or holds other things than a run's (resume),
  // cannot be written to, or another process trains in it. Such temporary files are removed.
  CheckpointFolder(std::string path, Use use);
  ~CheckpointFolder();  // a folder that it made and that is still empty goes, too
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(std::int64_t step) const;
  std::string step_log() const;  // steps.jsonl
  std::string upkeep() const { return upkeep_path(path_); }
  // Of the checkpoints up to `step`, removes all but the newest `count` and the newest known good one: its step is
  // below `finite_step`, the last step whose loss was finite. Unless given, every checkpoint is good.
  void keep_newest(std::int64_t count, std::int64_t step, std::int64_t finite_step = kAllGood) const;
  std::optional<std::int64_t> newest_good(std::int64_t finite_step) const;  // its step; empty: there is none

  // Renames the checkpoints of later steps, newest first, to step-00000170.safetensors.abandoned (.abandoned.2 where
  // that is there), so that none of them is taken for the newest of the run that goes on from `step`. Their steps,
  // ascending. Throws Error(runtime) where the disk refuses.
  std::vector<std::int64_t> set_aside_after(std::int64_t step) const;

 private:
  void lock();
  void remove_temporary_files() const;
  void check_contents(Use use) const;
  void remove_what_was_made() const;

  std::string path_;
  std::vector<std::string> made_;  // folders that were not there before, innermost first
  int descriptor_ = -1;
};

// Steps of the checkpoints in a folder, ascending; none where there is no such folder.
std::vector<std::int64_t> checkpoint_steps(const std::string& folder);
std::string checkpoint_path(const std::string& folder, std::int64_t step);

// The newest, or that of a step; null where the newest is asked for and there is none at all. Throws
// Error(invalid_argument) where there is none of that step, with the steps that there are, or where it is not whole,
// with the newest one before it that is, and `how` to take the one of that step.
using HowToTake = std::function<std::string(std::int64_t step)>;
std::unique_ptr<Checkpoint> open_checkpoint(const std::string& folder, std::int64_t step, const HowToTake& how);
inline constexpr std::int64_t kNewest = -1;

}  // namespace strobe::lm
