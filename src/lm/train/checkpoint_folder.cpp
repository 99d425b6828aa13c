// Implements CheckpointFolder. An advisory lock on the folder itself excludes other processes; the system releases it
// when the process ends.
#include "lm/train/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "core/fail.h"
#include "core/file_names.h"
#include "core/printable.h"
#include "core/regular_file.h"
#include "core/sync_folder.h"
#include "core/temporary_file.h"
#include "lm/train/checkpoint.h"
#include "lm/train/step_log.h"

namespace strobe::lm {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBefore = "step-", kAfter = ".safetensors", kRunOptions = "run.json";
constexpr std::size_t kLeastDigits = 8;

std::string shown(const std::string& path) { return "--out " + printable_value(path); }

// Returns the step of a name such as "step-00000100.safetensors"; -1 for another name.
std::int64_t step_of(std::string_view name) {
  if (!name.starts_with(kBefore) || !name.ends_with(kAfter)) return -1;
  if (name.size() < kBefore.size() + kLeastDigits + kAfter.size()) return -1;
  const std::string_view digits = name.substr(kBefore.size(), name.size() - kBefore.size() - kAfter.size());
  std::int64_t step = -1;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  return code == std::errc() && end == digits.data() + digits.size() ? step : -1;
}

bool is_written_by_a_run(std::string_view name) { return step_of(name) >= 0 || name == kRunOptions; }

// Returns true for a regular file named like a run's temporary file (temporary_file.h).
bool is_temporary(const std::string& folder, const std::string& name) {
  std::error_code ignored;
  const std::optional<std::string_view> stem = stem_of_temporary(name);
  return stem && is_written_by_a_run(*stem) &&
         fs::is_regular_file(fs::symlink_status(fs::path(folder) / name, ignored));
}

// Returns the folders that creating `path` would create, innermost first.
std::vector<std::string> missing_folders(const std::string& path) {
  std::vector<std::string> missing;
  std::error_code ignored;
  fs::path folder = fs::path(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "run/"
  for (; !folder.empty() && !fs::exists(folder, ignored); folder = folder.parent_path()) {
    missing.push_back(folder.string());
  }
  return missing;
}

// Returns a list such as "10, 20, 30", with at most the ten newest steps.
std::string list_of(const std::vector<std::int64_t>& steps) {
  constexpr std::size_t kMost = 10;
  const bool all = steps.size() <= kMost;
  const std::vector<std::int64_t> newest(all ? steps.begin() : steps.end() - kMost, steps.end());
  return fmt::format("{}{}", all ? "" : "the newest: ", fmt::join(newest, ", "));
}

std::string reason_of(const std::string& path) {
  try {
    const Checkpoint whole(path);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

CheckpointFolder::CheckpointFolder(std::string path, Use use) : path_(std::move(path)) {
  if (use == Use::fresh) {
    std::error_code error;
    made_ = missing_folders(path_);
    fs::create_directories(path_, error);
    if (error) {
      remove_what_was_made();
      fail(ErrorCode::invalid_argument, "{}: cannot be created: {}", shown(path_), error.message());
    }
  }
  descriptor_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) {
    fail(ErrorCode::invalid_argument, "{}: {}{}", shown(path_), std::strerror(errno),
         use == Use::resume && errno == ENOENT ? "; to begin a new run there, leave out --resume" : "");
  }
  try {
    lock();
    if (use == Use::fresh) check_contents(use);
    if (access(path_.c_str(), W_OK | X_OK) != 0) {
      fail(ErrorCode::invalid_argument, "{}: cannot be written: {}", shown(path_), std::strerror(errno));
    }
    remove_stale_temporaries(path_, is_written_by_a_run);
    if (use == Use::resume) check_contents(use);
  } catch (...) {
    close(descriptor_);
    remove_what_was_made();
    throw;
  }
}

CheckpointFolder::~CheckpointFolder() {
  close(descriptor_);
  remove_what_was_made();
}

void CheckpointFolder::remove_what_was_made() const {
  for (const std::string& folder : made_) {
    if (rmdir(folder.c_str()) != 0 && errno != ENOENT) return;  // stops at a folder that is not empty
  }
}

void CheckpointFolder::check_contents(Use use) const {
  std::error_code error;
  const std::vector<std::string> names = file_names(path_, error);
  if (error) fail(ErrorCode::runtime, "{}: {}", shown(path_), error.message());
  if (std::all_of(names.begin(), names.end(), [&](const std::string& name) { return is_temporary(path_, name); }))
    return;
  if (use == Use::fresh) {
    fail(ErrorCode::invalid_argument, "{}: is not empty; valid: --resume in a run's folder, or a new folder",
         shown(path_));
  }
  check_step_log(step_log());
  refuse_link(run_options(), printable_value(run_options()));
  if (!checkpoint_steps(path_).empty() || fs::exists(step_log()) || fs::exists(run_options())) return;
  fail(ErrorCode::invalid_argument,
       "{}: contains no run to resume, but other files such as {}; valid: a folder of lm train, or an empty one",
       shown(path_), printable_value(names.front()));
}

void CheckpointFolder::lock() {
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  fail(ErrorCode::invalid_argument, "{}: {}", shown(path_),
       errno == EWOULDBLOCK ? "another process trains in it" : std::strerror(errno));
}

std::string CheckpointFolder::step_log() const { return (fs::path(path_) / "steps.jsonl").string(); }

std::string run_options_path(const std::string& folder) { return (fs::path(folder) / kRunOptions).string(); }

std::string CheckpointFolder::file(std::int64_t step) const { return checkpoint_path(path_, step); }

std::optional<std::int64_t> CheckpointFolder::newest_good(std::int64_t finite_step) const {
  std::optional<std::int64_t> newest;
  for (const std::int64_t step : checkpoint_steps(path_)) {
    if (step < finite_step) newest = step;
  }
  return newest;
}

void CheckpointFolder::keep_newest(std::int64_t count, std::int64_t step, std::int64_t finite_step) const {
  std::vector<std::int64_t> steps = checkpoint_steps(path_);
  std::erase_if(steps, [&](std::int64_t one) { return one > step; });
  const std::optional<std::int64_t> good = newest_good(finite_step);
  std::error_code ignored;  // a file that cannot be removed is not an error
  for (std::size_t i = 0; i + static_cast<std::size_t>(count) < steps.size(); ++i) {
    if (steps[i] != good) fs::remove(file(steps[i]), ignored);
  }
}

std::vector<std::int64_t> CheckpointFolder::set_aside_after(std::int64_t step) const {
  std::vector<std::int64_t> steps = checkpoint_steps(path_);
  std::erase_if(steps, [&](std::int64_t one) { return one <= step; });
  for (auto one = steps.rbegin(); one != steps.rend(); ++one) {
    const std::string from = file(*one);
    std::string to = from + ".abandoned";
    std::error_code ignored;  // rename() reports the error
    for (int i = 2; fs::exists(to, ignored); ++i) to = fmt::format("{}.abandoned.{}", from, i);
    if (rename(from.c_str(), to.c_str()) == 0) continue;
    fail(ErrorCode::runtime, "{}: cannot be set aside: {}", printable_value(from), std::strerror(errno));
  }
  const int error = sync_folder(descriptor_);
  if (error != 0) fail(ErrorCode::runtime, "{}: syncing failed: {}", shown(path_), std::strerror(error));
  return steps;
}

std::vector<std::int64_t> checkpoint_steps(const std::string& folder) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (const std::string& name : file_names(folder, error)) {
    const std::int64_t step = step_of(name);
    if (step >= 0) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string checkpoint_path(const std::string& folder, std::int64_t step) {
  return (fs::path(folder) / fmt::format("{}{:08}{}", kBefore, step, kAfter)).string();
}

std::unique_ptr<Checkpoint> open_checkpoint(const std::string& folder, std::int64_t step, CheckpointParts parts,
                                            const HowToTake& how) {
  std::vector<std::int64_t> steps = checkpoint_steps(folder);
  if (step == kNewest) {
    if (steps.empty()) return nullptr;
    step = steps.back();
  }
  if (std::find(steps.begin(), steps.end(), step) == steps.end()) {
    fail(ErrorCode::invalid_argument, "{}: has no checkpoint of step {}{}", shown(folder), step,
         steps.empty() ? ", nor of any other step" : "; valid: " + list_of(steps));
  }
  try {
    return std::make_unique<Checkpoint>(checkpoint_path(folder, step), parts);
  } catch (const Error& error) {
    while (!steps.empty() && (steps.back() >= step || !reason_of(checkpoint_path(folder, steps.back())).empty())) {
      steps.pop_back();
    }
    const std::string offer = steps.empty() ? "no checkpoint before it is intact"
                                            : fmt::format("the newest intact one before it is that of step {}: {}",
                                                          steps.back(), how(steps.back()));
    fail(error.code(), "{}; {}", error.what(), offer);
  }
}

}  // namespace strobe::lm
