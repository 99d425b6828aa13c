// steps.jsonl of a training run: one JSON object a step with its exact loss, so that curves can be drawn and compared.
#pragma once

#include <cstdint>
#include <string>

#include "core/json.h"

namespace strobe::lm {

class StepLog {
 public:
  // Rows of steps after `last`, and a torn last line, are cut off: they will be taken again. Throws
  // Error(invalid_argument) where the file cannot be written.
  StepLog(const std::string& path, std::int64_t last);
  ~StepLog();
  StepLog(const StepLog&) = delete;
  StepLog& operator=(const StepLog&) = delete;

  // In one write, so that a killed process leaves whole lines. Throws Error(runtime) where the disk refuses.
  void append(const Json& row);
  void sync();  // to the disk

 private:
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace strobe::lm
