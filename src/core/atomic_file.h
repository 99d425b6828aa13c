// Files that are either the old one or the whole new one: temporary file in the same folder, fsync, rename.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace strobe {

class AtomicFile {
 public:
  // Creates the temporary file at once, so that an unwritable place is known before any work is done. A symbolic link
  // stays one: the file it leads to is replaced. A new file keeps the permissions of the one that it replaces. What is
  // not a plain file, /dev/stdout, /dev/stderr, /dev/fd and /proc are written to instead, at their end.
  // Throws Error(invalid_argument) with the system's reason; `asked_by`, such as a flag, stands before the path in it.
  explicit AtomicFile(std::string path, std::string asked_by = "output");
  ~AtomicFile();  // removes the temporary file where commit was not reached
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Its temporary file, for whoever wants a name that is removed at every end; empty for a device.
  const std::string& temporary() const { return temporary_; }

  // Appends to the temporary file. Throws Error(runtime) where the disk refuses; the old file then stays, as it does
  // after every failure below. What is written to a device (see above) is gone at once.
  void write(std::string_view contents);

  // Syncs and renames: what was written is the file now.
  void commit();
  void commit(std::string_view contents) {
    write(contents);
    commit();
  }

  // Throws Error(runtime) where the disk says that it has fewer bytes free than that, so that a large result is not
  // computed for nothing.
  void check_room(std::uint64_t bytes) const;

 private:
  void check(bool fine, const char* step) const;  // throws with errno's reason

  std::string shown_;  // who asked and the path as it was given
  std::string path_;   // behind any links
  std::string temporary_;
  int descriptor_ = -1;
  int slot_ = -1;  // in the table that a signal handler reads
};

// Throws Error(invalid_argument) where two names lead to one plain file, there or not yet: `path`, asked for by `what`,
// would take the place of `other`. "-" is none.
void check_apart(std::string_view what, const std::string& path, std::string_view other_what, const std::string& other);

// Removes the temporary files of all AtomicFiles that are open. Safe inside a signal handler.
void remove_temporary_files() noexcept;

}  // namespace strobe
