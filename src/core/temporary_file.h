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

// Returns the target. If temporary_name() would exceed NAME_MAX with it, returns the target's beginning, "~" and the
// CRC-32 of the target in eight hexadecimal digits.
std::string temporary_stem(std::string_view target);

// Returns the stem of a name with exactly that form, nullopt for any other name. Only files with such names are
// removed.
std::optional<std::string_view> stem_of_temporary(std::string_view name);

// Removes regular files in `folder` that have such a name with a stem that `is_known` accepts. Keeps files that a
// running process has locked (AtomicFile holds an flock on its temporary file). Ignores errors: a leftover file is
// harmless.
void remove_stale_temporaries(const std::string& folder, const std::function<bool(std::string_view stem)>& is_known);

}  // namespace strobe
