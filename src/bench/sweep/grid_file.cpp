// Reads and finds grid files.
#include "bench/sweep/grid_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "bench/torch_peer.h"
#include "core/fail.h"
#include "core/printable.h"

namespace strobe::bench {
namespace {

constexpr const char* kSuffix = ".grid";
constexpr std::size_t kMaxBytes = 1 << 16;
constexpr std::size_t kMaxBlocks = 1000;

std::vector<std::string> split_names(const std::string& list) {
  std::vector<std::string> names;
  std::istringstream stream(list);
  for (std::string name; std::getline(stream, name, ',');) names.push_back(name);
  return names;
}

// Empty if each name is a torch-* implementation that occurs once.
std::string peers_fault(const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!is_torch_peer(names[i])) {
      return fmt::format("\"{}\"; valid: {}", printable(names[i]), fmt::join(kTorchPeers, ", "));
    }
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i)) {
      return fmt::format("{} is named twice", names[i]);
    }
  }
  return {};
}

std::filesystem::path sibling_folder(const std::string& program) {
  return std::filesystem::path(program).parent_path().parent_path() / "share" / "strobe" / "sweeps";
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == kSuffix) names.push_back(entry->path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Grid read_grid(const std::filesystem::path& path, const std::string& name) {
  std::error_code error;
  const bool is_regular = std::filesystem::is_regular_file(path, error);  // opening a FIFO would block
  std::ifstream file(is_regular ? path : std::filesystem::path(), std::ios::binary);
  if (!file) {
    fail(ErrorCode::invalid_argument, "--grid {}: cannot be read", printable_value(name));
  }
  std::string text(kMaxBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMaxBytes) {
    fail(ErrorCode::invalid_argument, "--grid {}: longer than {} bytes; not a grid", printable_value(name), kMaxBytes);
  }
  return parse_grid(name, text);
}

}  // namespace

Grid parse_grid(const std::string& name, std::string_view text) {
  Grid grid{.name = name, .about = {}, .run = {}, .peers = {}, .blocks = {}};
  std::vector<std::string> common;
  int number = 0;
  const auto refuse = [&](std::string_view why) {
    fail(ErrorCode::invalid_argument, "--grid {}: line {}: {}", printable_value(name), number, why);
  };
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const auto is_control = [](unsigned char c) { return (c < 0x20 && c != '\t' && c != '\r') || c == 0x7f; };
    if (std::any_of(line.begin(), line.end(), is_control)) refuse("a control character; not a text file");
    std::istringstream stream(line);
    std::string key;
    if (!(stream >> key) || key[0] == '#') continue;
    std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
    if (key != "about" && key != "run" && key != "peers" && key != "common" && key != "cells") {
      refuse(fmt::format("\"{}\"; valid: about, run, peers, common, cells, #", printable(key)));
    }
    if (words.empty()) refuse(fmt::format("nothing after \"{}\"", key));
    if (key == "about") {
      if (!grid.about.empty()) refuse("a second \"about\"");
      grid.about = fmt::format("{}", fmt::join(words, " "));
    } else if (key == "run") {
      grid.run.insert(grid.run.end(), words.begin(), words.end());
    } else if (key == "peers") {
      if (!grid.peers.empty()) refuse("a second \"peers\"");
      if (words.size() > 1) refuse(fmt::format("\"{}\" after the list", printable(words[1])));
      grid.peers = split_names(words[0]);
      if (const std::string fault = peers_fault(grid.peers); !fault.empty()) refuse(fault);
    } else if (key == "common") {
      common.insert(common.end(), words.begin(), words.end());
    } else {
      if (grid.blocks.size() == kMaxBlocks) refuse(fmt::format("more than {} lines of cells", kMaxBlocks));
      words.insert(words.begin(), common.begin(), common.end());
      grid.blocks.push_back(std::move(words));
    }
  }
  if (grid.blocks.empty()) {
    fail(ErrorCode::invalid_argument, "--grid {}: no \"cells\" line", printable_value(name));
  }
  return grid;
}

Grid load_grid(const std::string& word, const std::string& program) {
  if (word.find('/') != std::string::npos) return read_grid(word, word);
  const std::filesystem::path folder = sibling_folder(program);
  const std::vector<std::string> names = names_in(folder);
  if (std::find(names.begin(), names.end(), word) != names.end()) return read_grid(folder / (word + kSuffix), word);
  fail(ErrorCode::invalid_argument, "--grid {}: unknown; valid: {}, or the path of a file, with a slash in it",
       printable_value(word), fmt::join(names, ", "));
}

std::vector<Grid> named_grids(const std::string& program) {
  const std::filesystem::path folder = sibling_folder(program);
  std::vector<Grid> grids;
  for (const std::string& name : names_in(folder)) grids.push_back(read_grid(folder / (name + kSuffix), name));
  return grids;
}

}  // namespace strobe::bench
