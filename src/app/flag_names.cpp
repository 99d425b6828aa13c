// Groups of flag names with the same meaning.
#include "app/flag_names.h"

#include <algorithm>
#include <iterator>

namespace strobe {
namespace {

using Group = std::vector<std::string_view>;

const std::vector<Group>& groups() {
  static const std::vector<Group> kGroups = {
      {"batch-size", "batch"},
      {"seq-len", "context", "seq", "sequence-length"},
      {"num-heads", "heads"},
      {"num-kv-heads", "kv-heads"},
      {"emb-dim", "d-model", "emb"},
      {"dtype", "precision"},
      {"impl", "attention", "implementation"},
      {"output", "out", "json"},
  };
  return kGroups;
}

}  // namespace

std::vector<std::string_view> flag_synonyms(std::string_view flag) {
  for (const Group& group : groups()) {
    if (std::find(group.begin(), group.end(), flag) == group.end()) continue;
    Group others;
    std::copy_if(group.begin(), group.end(), std::back_inserter(others), [&](auto name) { return name != flag; });
    return others;
  }
  return {};
}

}  // namespace strobe
