// One JSON file a cell, with the names that the source reports' script gave them, so that their plotting code finds
// them.
#pragma once

#include <string>
#include <vector>

#include "bench/sweep/problem.h"

namespace strobe::bench {

// "result_bs16_sl512_nh16_ed1024_Flash2_causal.json"; "..._causal_causal.json" where causal is on.
std::string source_file_name(const Json& config, const std::string& implementation);

class JsonFolder {
 public:
  // Throws Error(invalid_argument) where the folder is not there and cannot be created, where it cannot be written to,
  // and where two cells would have the same name: type, device and the like are not part of it.
  JsonFolder(std::string path, const std::vector<Problem>& problems);

  void create() const;                // where it is missing
  void write(const Json& row) const;  // whole or not at all
  void write_if_missing(const Json& row) const;

 private:
  std::string path_of(const Json& row) const;

  std::string path_;
};

}  // namespace strobe::bench
