// StepLog writes steps.jsonl of a training run: one JSON object (row) per step with its exact loss. Loss curves can be
// drawn from it and compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/descriptor.h"
#include "core/json.h"

namespace strobe::lm {

// Returns the number of bytes of the rows up to step `last`. Rows of later steps and an incomplete last line may
// follow; the caller may cut them off. Checks the whole text. Throws Error(invalid_argument) with `shown` and the
// line's number if a line is not a row or has a lower step than the line before. Such a log is damaged and must not be
// truncated.
std::size_t kept_log_bytes(std::string_view text, std::int64_t last, const std::string& shown);

// Throws Error(invalid_argument) if kept_log_bytes() does, or if the file is not a regular file. A missing log is
// valid.
void check_step_log(const std::string& path);

class StepLog {
 public:
  // Creates the file, or cuts off an incomplete last line and the rows of steps after `last`, which are computed again.
  // Throws Error(invalid_argument) if check_step_log() does, if the path is a symbolic link, or if the file cannot be
  // written.
  StepLog(const std::string& path, std::int64_t last);

  // Appends in one write, so that a killed process leaves complete lines. Throws Error(runtime).
  void append(const Json& row);
  void sync();  // calls fsync; throws Error(runtime)

 private:
  std::string path_;
  Descriptor file_;
};

}  // namespace strobe::lm
