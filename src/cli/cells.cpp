// Reads a file of configurations line by line, as a command line of its own.
#include "cli/cells.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "core/case_text.h"
#include "core/fail.h"

namespace strobe::cli {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;  // a device or a wrong file is not read to its end

std::string read_text(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    fail(ErrorCode::invalid_argument, "--cells {}: is a folder; valid: a file with a configuration a line", path);
  }
  // A pipe would be read by the first of several launches alone, or waited for.
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    fail(ErrorCode::invalid_argument, "--cells {}: is not a plain file; valid: a file with a configuration a line",
         path);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorCode::invalid_argument, "--cells {}: cannot be read: {}", path, std::strerror(errno));
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMostBytes) {
    fail(ErrorCode::invalid_argument, "--cells {}: more than {} bytes; a line of flags a configuration is expected",
         path, kMostBytes);
  }
  return text;
}

Cases cases_of_line(const std::vector<std::string>& words, const CaseOptions& defaults) {
  CaseOptions one = defaults;
  one.emb.reset(), one.head_dim.reset();  // a line that has one of them replaces both
  OptionTable table("a configuration");
  add_configuration_options(table, one);
  const std::vector<std::string> flags = with_case_flags(words);
  const std::vector<std::string_view> views(flags.begin(), flags.end());
  if (table.parse(views) == OptionTable::Outcome::help) {
    fail(ErrorCode::invalid_argument, "--help: not a flag of a configuration; see strobe bench --help");
  }
  if (!one.emb && !one.head_dim) one.emb = defaults.emb, one.head_dim = defaults.head_dim;
  Cases cases = cases_of(one);
  check_problems(cases);
  return cases;
}

}  // namespace

Cases read_cells(const std::string& path, const CaseOptions& defaults) {
  Cases all;
  std::istringstream lines(read_text(path));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream text(line);
    const std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
    if (words.empty() || words[0].starts_with('#')) continue;
    try {
      const Cases found = cases_of_line(words, defaults);
      all.cases.insert(all.cases.end(), found.cases.begin(), found.cases.end());
      for (const std::string& note : found.notes) {
        if (std::find(all.notes.begin(), all.notes.end(), note) == all.notes.end()) all.notes.push_back(note);
      }
    } catch (const Error& error) {
      fail(error.code(), "{}:{}: {}", path, number, error.what());
    }
  }
  if (all.cases.empty()) fail(ErrorCode::invalid_argument, "--cells {}: no configuration in it", path);
  return all;
}

}  // namespace strobe::cli
