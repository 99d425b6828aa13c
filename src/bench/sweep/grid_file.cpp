// Finds, reads and parses grid files, and expands axes to combinations.
#include "bench/sweep/grid_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "bench/torch_peer.h"
#include "core/case_text.h"
#include "core/fail.h"
#include "core/printable.h"

namespace strobe::bench {
namespace {

constexpr std::size_t kMaxBytes = 1 << 16;
constexpr std::size_t kMaxBlocks = 1000;

std::vector<std::string> split_names(const std::string& list) {
  std::vector<std::string> names;
  std::istringstream stream(list);
  for (std::string name; std::getline(stream, name, ',');) names.push_back(name);
  return names;
}

// Returns what is wrong with the names; empty if each is a PyTorch peer and occurs once.
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

std::vector<std::string> names_in(const std::filesystem::path& folder, std::string_view suffix) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == suffix) names.push_back(entry->path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string read_text(const std::string& flag, const std::filesystem::path& path, const std::string& name) {
  std::error_code error;
  const bool is_regular = std::filesystem::is_regular_file(path, error);  // opening a FIFO would block
  std::ifstream file(is_regular ? path : std::filesystem::path(), std::ios::binary);
  if (!file) {
    fail(ErrorCode::invalid_argument, "{} {}: cannot be read", flag, printable_value(name));
  }
  std::string text(kMaxBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMaxBytes) {
    fail(ErrorCode::invalid_argument, "{} {}: longer than {} bytes", flag, printable_value(name), kMaxBytes);
  }
  return text;
}

constexpr std::size_t kMaxCombinations = 100000;

std::vector<std::string> items_of(const std::string& flag, std::string_view value) {
  std::vector<std::string> items;
  for (std::size_t begin = 0; begin <= value.size();) {
    const std::size_t end = std::min(value.find(',', begin), value.size());
    std::string item(value.substr(begin, end - begin));
    if (item.empty()) {
      fail(ErrorCode::invalid_argument, "--{} {}: the list must not have an empty item", printable(flag),
           printable(value));
    }
    if (std::find(items.begin(), items.end(), item) != items.end()) {
      fail(ErrorCode::invalid_argument, "--{} {}: {} is listed twice; valid: each once", printable(flag),
           printable(value), printable(item));
    }
    items.push_back(std::move(item));
    begin = end + 1;
  }
  return items;
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
    if (key == "common" || key == "cells") {
      try {
        words = with_case_flags(words);
      } catch (const Error& error) {
        refuse(error.what());
      }
    }
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

std::string read_sweep_file(const std::string& flag, const std::string& word, const std::string& suffix,
                            const std::string& program) {
  if (word.find('/') != std::string::npos) return read_text(flag, word, word);
  const std::filesystem::path folder = sibling_folder(program);
  const std::vector<std::string> names = names_in(folder, suffix);
  if (std::find(names.begin(), names.end(), word) != names.end())
    return read_text(flag, folder / (word + suffix), word);
  fail(ErrorCode::invalid_argument, "{} {}: unknown; valid: {}, or the path of a file, with a slash in it", flag,
       printable_value(word), fmt::join(names, ", "));
}

Grid load_grid(const std::string& word, const std::string& program) {
  return parse_grid(word, read_sweep_file("--grid", word, ".grid", program));
}

std::vector<Grid> named_grids(const std::string& program) {
  const std::filesystem::path folder = sibling_folder(program);
  std::vector<Grid> grids;
  for (const std::string& name : names_in(folder, ".grid")) grids.push_back(load_grid(name, program));
  return grids;
}

Axis make_axis(std::string flag, std::string_view value) {
  if (value.empty()) return {std::move(flag), {"on"}};
  if (flag == "impl" || flag == "lengths") return {std::move(flag), {std::string(value)}};
  if (flag == "causal" && value == "both") return {std::move(flag), {"off", "on"}};
  std::vector<std::string> items = items_of(flag, value);
  return {std::move(flag), std::move(items)};
}

void set_axis(std::vector<Axis>& axes, Axis axis) {
  for (Axis& known : axes) {
    if (known.flag != axis.flag) continue;
    known = std::move(axis);
    return;
  }
  axes.push_back(std::move(axis));
}

std::vector<Combination> product_of(const std::vector<Axis>& axes) {
  std::size_t count = 1;
  for (const Axis& axis : axes) {
    count *= axis.values.size();  // no overflow: lists are limited by the length of a command line
    if (count > kMaxCombinations) {
      fail(ErrorCode::invalid_argument, "sweep: more than {} combinations; valid: fewer or shorter lists",
           kMaxCombinations);
    }
  }
  std::vector<Combination> all;
  all.reserve(count);
  for (std::size_t number = 0; number < count; ++number) {
    Combination one(axes.size());
    std::size_t rest = number;
    for (std::size_t i = axes.size(); i-- > 0;) {
      const std::vector<std::string>& values = axes[i].values;
      one[i] = {axes[i].flag, values[rest % values.size()]};
      rest /= values.size();
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace strobe::bench
