// One JSON file per cell, named as in the source reports' script, so that its plotting code finds them.
#pragma once

#include <string>
#include <vector>

#include "bench/sweep/problem.h"

namespace strobe::bench {

// "result_bs16_sl512_nh16_ed1024_Flash2_causal.json"; "..._causal_causal.json" with a causal mask.
std::string source_file_name(const Json& config, const std::string& implementation);

class JsonFolder {
 public:
  // Throws Error(invalid_argument) if the folder does not exist and cannot be created, if it is not writable, or if two
  // cells would have the same file name, which omits type, device and others.
  JsonFolder(std::string path, const std::vector<Problem>& problems);

  void create() const;  // does nothing if it exists

  // Replaces the file of a cell atomically. Throws Error(invalid_argument) if its name is a symbolic link.
  void write(const Json& row) const;
  void write_if_missing(const Json& row) const;

 private:
  std::string path_of(const Json& row) const;

  std::string path_;
};

}  // namespace strobe::bench
