// Lists the architectures and finds them by name.
#include "lm/models/architecture.h"

#include <iterator>

#include "lm/models/choices.h"

namespace strobe::lm {

extern const Definition kLlama, kGpt2;

namespace {

const Definition* const kDefinitions[] = {&kLlama, &kGpt2};  // in the order of Architecture

std::vector<const char*> definition_names() {
  std::vector<const char*> names;
  for (const Definition* one : kDefinitions) names.push_back(one->name);
  return names;
}

}  // namespace

const Definition& definition_of(Architecture architecture) {
  return *kDefinitions[static_cast<std::size_t>(architecture)];
}

std::vector<std::string> architecture_names() {
  const std::vector<const char*> names = definition_names();
  return {names.begin(), names.end()};
}

const char* name_of(Architecture architecture) { return definition_of(architecture).name; }

Architecture architecture_of(std::string_view name) {
  return static_cast<Architecture>(index_of_name("arch", name, definition_names()));
}

}  // namespace strobe::lm
