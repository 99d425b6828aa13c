// Defines which flags have several names. A command that has one of the names accepts all of them.
#pragma once

#include <string_view>
#include <vector>

namespace strobe {

// Returns the other names of a flag: lower case, with dashes, without the leading dashes. Empty if it has none.
//   flag_synonyms("dtype") returns {"precision"}
std::vector<std::string_view> flag_synonyms(std::string_view flag);

}  // namespace strobe
