// A temporary folder for the files of one test, removed by the destructor.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace strobe::test {

class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "strobe-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path_ / name).rdbuf();
    return text.str();
  }
  std::size_t entries() const {
    const std::filesystem::directory_iterator all(path_);
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }
  // Writes an executable file and returns its path.
  std::filesystem::path program(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    std::filesystem::permissions(path_ / name, std::filesystem::perms::owner_all);
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace strobe::test
