// Makes file names durable: a created, renamed or removed name survives a power failure once its folder is synced.
#pragma once

#include <string>

namespace strobe {

// Returns the folder part of a path; "." if it has none.
std::string folder_of(const std::string& path);

// Calls fsync on an open folder. Returns 0 or errno. EINVAL, EROFS and EOPNOTSUPP count as 0, since such a file system
// cannot sync folders at all (PostgreSQL and SQLite ignore them too). EIO and ENOSPC are failures.
int sync_folder(int descriptor);

// Opens and syncs a folder. EACCES also counts as 0: a folder that is writable but not readable cannot be opened.
int sync_folder(const std::string& folder);

}  // namespace strobe
