// steps.jsonl of a training run: one JSON object per step with its exact loss, so that curves can be drawn and
// compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/descriptor.h"
#include "core/json.h"

namespace strobe::lm {

// Returns the bytes of the rows up to the step `last`. Rows of later steps and a torn last line may follow; both may be
// cut off. Checks the whole text. Throws Error(invalid_argument), prefixed with `shown`, with the number of a line that
// is not a row or has a lower step than the line before. Such a log is damaged and must not be shortened.
std::size_t kept_log_bytes(std::string_view text, std::int64_t last, const std::string& shown);

// Throws Error(invalid_argument) as above, and if the file is not a regular one. A missing log is valid.
void check_step_log(const std::string& path);

class StepLog {
 public:
  // Creates the file, or cuts off a torn last line and the rows of steps after `last`, which are computed again. Throws
  // Error(invalid_argument) as check_step_log does, and if the file cannot be written. Symbolic links are not followed.
  StepLog(const std::string& path, std::int64_t last);

  // Appends in one write, so that a killed process leaves complete lines. Throws Error(runtime).
  void append(const Json& row);
  void sync();  // to the disk; throws Error(runtime)

 private:
  std::string path_;
  Descriptor file_;
};

}  // namespace strobe::lm
