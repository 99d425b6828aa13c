// Checks, truncates and extends steps.jsonl.
#include "lm/train/step_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/fail.h"
#include "core/json_lines.h"
#include "core/mapped_file.h"
#include "core/printable.h"
#include "core/regular_file.h"

namespace strobe::lm {

namespace {

constexpr std::string_view kStepRowBegin = "{\"step\":";

[[noreturn]] void refuse_line(const std::string& shown, int number, const std::string& reason) {
  fail(ErrorCode::invalid_argument,
       "{}: line {} is damaged: {}; repair it, or move the file away to resume without its rows", shown, number,
       reason);
}

std::int64_t step_of_row(std::string_view line, int number, const std::string& shown) {
  try {
    return Json::parse(line).at("step").as_integer();
  } catch (const Error& error) {
    refuse_line(shown, number, error.what());
  }
}

}  // namespace

std::size_t kept_log_bytes(std::string_view text, std::int64_t last, const std::string& shown) {
  std::size_t kept = 0;
  std::int64_t before = 0;
  for_each_whole_line(text, kStepRowBegin, shown, [&](std::string_view line, int number) {
    const std::int64_t step = step_of_row(line, number, shown);
    if (step < before) refuse_line(shown, number, fmt::format("step {} follows step {}", step, before));
    before = step;
    if (step <= last) kept += line.size() + 1;
  });
  return kept;
}

void check_step_log(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0 && errno == ENOENT) return;
  const std::string shown = printable_value(path);
  kept_log_bytes(MappedFile(open_regular(path, O_RDONLY, shown), shown).text(), 0, shown);
}

StepLog::StepLog(const std::string& path, std::int64_t last) : path_(path) {
  const std::string shown = printable_value(path);
  file_ = open_regular(path, O_RDWR | O_CREAT | O_APPEND, shown);
  const MappedFile contents(Descriptor(fcntl(file_.get(), F_DUPFD_CLOEXEC, 0)), shown);
  const std::size_t kept = kept_log_bytes(contents.text(), last, shown);
  if (kept == contents.bytes() || ftruncate(file_.get(), static_cast<off_t>(kept)) == 0) return;
  fail(ErrorCode::invalid_argument, "{}: cannot be written: {}", shown, std::strerror(errno));
}

void StepLog::append(const Json& row) {
  const std::string line = row.dump() + "\n";
  const ssize_t written = write(file_.get(), line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) return;
  fail(ErrorCode::runtime, "{}: cannot be written: {}", printable_value(path_),
       written < 0 ? std::strerror(errno) : "the disk is full");
}

void StepLog::sync() {
  if (fsync(file_.get()) == 0) return;
  fail(ErrorCode::runtime, "{}: syncing failed: {}", printable_value(path_), std::strerror(errno));
}

}  // namespace strobe::lm
