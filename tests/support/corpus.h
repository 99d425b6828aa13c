// Reads the fuzzers' seeds in tests/data/NAME_corpus, for tests that replay them without libFuzzer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/printable.h"
#include "support/json_mutator.h"

namespace strobe::test {

using Bytes = std::vector<std::uint8_t>;

// Returns the seeds by file name, without the script make_corpus.py, which wrote some of them.
inline std::map<std::string, Bytes> corpus(const std::string& name) {
  std::map<std::string, Bytes> files;
  for (const auto& entry : std::filesystem::directory_iterator(STROBE_TEST_DATA "/" + name + "_corpus")) {
    if (entry.path().extension() == ".py") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().filename()] = Bytes(std::istreambuf_iterator<char>(file), {});
  }
  return files;
}

// Returns the sorted names of the seeds that `harness` accepts. A harness is a function bool(const std::uint8_t*,
// std::size_t).
template <class Harness>
std::vector<std::string> accepted_seeds(const std::string& name, Harness&& harness) {
  std::vector<std::string> accepted;
  for (const auto& [file, bytes] : corpus(name)) {
    if (harness(bytes.data(), bytes.size())) accepted.push_back(file);
  }
  return accepted;
}

// Runs `harness` on `rounds` mutations of the seeds, which are JSON documents. Returns how many mutations it accepted.
// If a mutation breaks a rule, throws an error that contains the mutated input.
template <class Harness>
int accepted_json_mutations(const std::string& name, int rounds, Harness&& harness) {
  const std::map<std::string, Bytes> seeds = corpus(name);
  int accepted = 0;
  for (int round = 0; round < rounds; ++round) {
    const Bytes& seed = std::next(seeds.begin(), round % static_cast<int>(seeds.size()))->second;
    std::string text(seed.begin(), seed.end());
    for (unsigned change = 0; change <= static_cast<unsigned>(round) % 3; ++change) {
      text = mutated_json(text, 7919 * static_cast<unsigned>(round) + change);
    }
    try {
      if (harness(reinterpret_cast<const std::uint8_t*>(text.data()), text.size())) ++accepted;
    } catch (const std::exception& error) {
      throw std::runtime_error(std::string(error.what()) + " by " + printable(text, 2000));
    }
  }
  return accepted;
}

}  // namespace strobe::test
