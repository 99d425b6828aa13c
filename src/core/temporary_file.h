// Names the temporary files of AtomicFile and removes those that killed processes left.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace strobe {

// Returns a new name for a temporary file of `target`, a file name without folders: stem + ".strobe-tmp-" + six random
// letters or digits. The stem is temporary_stem(target).
std::string temporary_name(std::string_view target);

// Returns `target`, or a shorter stem if the temporary name would exceed NAME_MAX. The shorter stem is a prefix of
// `target`, "~" and the CRC-32 of `target` in eight hexadecimal digits.
std::string temporary_stem(std::string_view target);

// Returns the stem of a name that has the form of temporary_name(), and nullopt for any other name.
std::optional<std::string_view> stem_of_temporary(std::string_view name);

// Removes the regular files in `folder` whose name has the form of temporary_name(), if is_known(stem) returns true.
// Keeps files that a running process has locked (AtomicFile holds an flock on its temporary file). Ignores errors: a
// leftover file is harmless.
void remove_stale_temporaries(const std::string& folder, const std::function<bool(std::string_view stem)>& is_known);

}  // namespace strobe
