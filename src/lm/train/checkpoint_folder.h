// CheckpointFolder manages the folder of a training run. The folder contains the newest checkpoints, with names such as
// step-00000100.safetensors, steps.jsonl (step_log.h) and run.json (run_options.h). A lock excludes other processes.
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
enum class CheckpointParts;

std::string run_options_path(const std::string& folder);  // run.json

class CheckpointFolder {
 public:
  static constexpr std::int64_t kAllGood = std::numeric_limits<std::int64_t>::max();
  enum class Use { fresh, resume };
  // With Use::fresh, creates the folder if it does not exist. Throws Error(invalid_argument) with `path`:
  // - fresh: if the folder contains anything except temporary files of a killed process (temporary_file.h);
  // - resume: if the folder does not exist, contains other files but no run, or has a damaged steps.jsonl (step_log.h);
  // - both: if the folder is not writable, or another process trains in it.
  //
  // Removes temporary files of checkpoints and of run.json that no process has locked, and no other file.
  CheckpointFolder(std::string path, Use use);
  ~CheckpointFolder();  // removes the folders that it created and that are still empty
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(std::int64_t step) const;
  std::string step_log() const;  // steps.jsonl
  std::string run_options() const { return run_options_path(path_); }
  // Removes checkpoints up to `step`, except the newest `count` and the newest one known to be good. A checkpoint is
  // known to be good if its step is below `finite_step`, the last step with a finite loss. By default all are good.
  void keep_newest(std::int64_t count, std::int64_t step, std::int64_t finite_step = kAllGood) const;
  std::optional<std::int64_t> newest_good(std::int64_t finite_step) const;  // returns its step; nullopt: none

  // Renames the checkpoints of later steps, newest first, so that a run that resumes from `step` ignores them. A new
  // name is, for example, step-00000170.safetensors.abandoned, or .abandoned.2 if that exists. Returns the steps of the
  // renamed checkpoints, ascending. Throws Error(runtime) if a rename or the sync of the folder fails.
  std::vector<std::int64_t> set_aside_after(std::int64_t step) const;

 private:
  void lock();
  void check_contents(Use use) const;
  void remove_what_was_made() const;

  std::string path_;
  std::vector<std::string> made_;  // folders that did not exist before, innermost first
  int descriptor_ = -1;
};

// Returns the steps of the checkpoints in a folder, ascending; empty if the folder does not exist.
std::vector<std::int64_t> checkpoint_steps(const std::string& folder);
std::string checkpoint_path(const std::string& folder, std::int64_t step);

// Opens the checkpoint of a step. If `step` is kNewest, opens the newest one, or returns null if there is none. Throws
// Error(invalid_argument) if the step has no checkpoint; the error lists the newest steps that have one. Also throws if
// the file is damaged. That error names the newest intact checkpoint before the damaged one and contains how(step), the
// text on how to select that step.
using HowToTake = std::function<std::string(std::int64_t step)>;
std::unique_ptr<Checkpoint> open_checkpoint(const std::string& folder, std::int64_t step, CheckpointParts parts,
                                            const HowToTake& how);
inline constexpr std::int64_t kNewest = -1;

}  // namespace strobe::lm
