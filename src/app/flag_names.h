// The one table of flags that have several names. A name works in every command that has one of its synonyms.
#pragma once

#include <string_view>
#include <vector>

namespace strobe {

// Returns the synonyms of a flag: lower case, dashes, without the leading dashes. Empty if it has none.
//   flag_synonyms("dtype") returns {"precision"}
std::vector<std::string_view> flag_synonyms(std::string_view flag);

}  // namespace strobe
