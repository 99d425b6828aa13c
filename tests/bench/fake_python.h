// Shell scripts that replace the Python interpreter (through STROBE_PYTHON).
#pragma once

#include <stdlib.h>

#include <algorithm>
#include <optional>
#include <string>

#include "support/scratch.h"

namespace strobe::test {

// Sets STROBE_PYTHON to a script with this text until the end of the scope. Without a text, names a missing file.
class PythonScope {
 public:
  explicit PythonScope(const std::optional<std::string>& text) {
    if (const char* before = std::getenv(kVariable)) before_ = before;
    setenv(kVariable, text ? scratch_.program("python3", *text).c_str() : "/nonexistent/python", 1);
  }
  // Returns the number of starts, which is the number of lines that the script has appended to "$0.starts".
  std::ptrdiff_t starts() const {
    const std::string lines = scratch_.read("python3.starts");
    return std::count(lines.begin(), lines.end(), '\n');
  }
  ~PythonScope() { before_ ? setenv(kVariable, before_->c_str(), 1) : unsetenv(kVariable); }
  PythonScope(const PythonScope&) = delete;
  PythonScope& operator=(const PythonScope&) = delete;

 private:
  static constexpr const char* kVariable = "STROBE_PYTHON";
  const Scratch scratch_;
  std::optional<std::string> before_;
};

// Implements the protocol of bench's PyTorch implementations (peers) with valid answers; `special` adds faults.
class FakePython : public PythonScope {
 public:
  // `special` is shell code that precedes the valid answers: cases of the form `PATTERN) COMMANDS ;;`.
  explicit FakePython(const std::string& special)
      : PythonScope("#!/bin/sh\necho $$ >>\"$0.starts\"\nwhile read -r line; do case \"$line\" in\n" + special + "\n" +
                    R"(*\"hello\"*) echo '{"ok":true,"torch":"fake","python":"fake"}' ;;
*\"prepare\"*) echo '{"ok":true,"kernel":"fake","configuration":"backend fake"}' ;;
*\"time\"*) echo '{"ok":true,"seconds":0.001}' ;;
*\"peak\"* | *\"kept\"*) echo '{"ok":true,"bytes":1048576}' ;;
*) echo '{"ok":true}' ;;
esac; done
)") {}
};

}  // namespace strobe::test
