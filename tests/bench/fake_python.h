// A stand-in for STROBE_PYTHON: a shell script that speaks the peers' protocol and misbehaves as told.
#pragma once

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace strobe::test {

class FakePython {
 public:
  // `special` is shell code: cases (pattern) commands ;; that come before the honest-looking answers.
  explicit FakePython(const std::string& special) {
    std::string name = (std::filesystem::temp_directory_path() / "strobe-fake-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    const std::filesystem::path script = folder_ / "python3";
    std::ofstream(script) << "#!/bin/sh\nwhile read -r line; do case \"$line\" in\n"
                          << special << "\n"
                          << R"(*\"hello\"*) echo '{"ok":true,"torch":"fake","python":"fake"}' ;;
*\"prepare\"*) echo '{"ok":true,"backend":"fake"}' ;;
*\"time\"*) echo '{"ok":true,"seconds":0.001}' ;;
*\"peak\"*) echo '{"ok":true,"bytes":1048576}' ;;
*) echo '{"ok":true}' ;;
esac; done
)";
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    setenv("STROBE_PYTHON", script.c_str(), 1);
  }
  ~FakePython() {
    unsetenv("STROBE_PYTHON");
    std::filesystem::remove_all(folder_);
  }
  FakePython(const FakePython&) = delete;
  FakePython& operator=(const FakePython&) = delete;

 private:
  std::filesystem::path folder_;
};

}  // namespace strobe::test
