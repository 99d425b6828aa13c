// Reads files of golden values. A field is a name, a count and that many numbers; the rest of a line after # is a
// comment.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace strobe::test {

using Fields = std::map<std::string, std::vector<double>>;

// Reads the fields of a file. A missing or truncated file fails the test.
inline Fields read_fields(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) ADD_FAILURE() << path << ": cannot be read";
  Fields fields;
  std::string name, number;
  while (file >> name) {
    if (name == "#") {
      std::getline(file, number);
      continue;
    }
    std::size_t count = 0;
    std::vector<double>& values = fields[name];
    if (file >> count) {
      while (values.size() < count && file >> number) values.push_back(std::strtod(number.c_str(), nullptr));
    }
    // The last number must be followed by a line end; otherwise the file is truncated.
    if (values.size() != count || !file.good()) {
      ADD_FAILURE() << path << ": ends in field " << name << ", after " << values.size() << " of " << count
                    << " numbers";
      break;
    }
  }
  return fields;
}

}  // namespace strobe::test
