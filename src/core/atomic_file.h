// Files that hold either the old contents or all of the new ones: temporary file in the same folder, fsync, rename.
//
// A process that is killed leaves at most one file NAME.strobe-tmp-XXXXXX (temporary_file.h): if the file system has no
// O_TMPFILE, or during a rename. The next AtomicFile for the same NAME removes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/descriptor.h"
#include "core/removal_list.h"

namespace strobe {

class AtomicFile {
 public:
  // Handling of a path that is a symbolic link. `follow`: keeps the link and replaces its target; for names that the
  // user gave. `refuse`: throws; for names that the program chose inside a folder.
  enum class Links { follow, refuse };

  // Opens the temporary file at once, so that an unwritable path fails before any work is done.
  // A new file keeps the permissions of the one that it replaces; owner and extended attributes are not kept, and other
  // hard links keep the old contents. Devices, FIFOs, /dev/stdout, /dev/stderr, /dev/fd and /proc are not replaced:
  // text is appended to them.
  // Throws Error(invalid_argument) with the system's reason; `asked_by`, such as a flag, precedes the path in the
  // message.
  explicit AtomicFile(std::string path, std::string asked_by = "output", Links links = Links::follow);
  ~AtomicFile();  // removes the temporary file if commit was not reached
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // True if the path is a device, FIFO or descriptor: text is appended to it, and nothing is replaced.
  bool is_device() const { return is_device_; }

  // Returns the name of the temporary file, and names it first if needed. The file is removed at every end of the
  // process except SIGKILL. Empty for a device. Throws Error(runtime).
  const std::string& temporary();

  // Appends to the temporary file. Throws Error(runtime) on a failed write. The old file then stays, as after every
  // failure below. Text for a device (see above) is written at once.
  void write(std::string_view contents);

  // Syncs, then renames over the target. Throws Error(runtime). If only the last step fails, the sync of the folder
  // (sync_folder.h), the new file is in place, but a power failure may restore the old one.
  void commit();
  void commit(std::string_view contents) {
    write(contents);
    commit();
  }

  // Throws Error(runtime) if fewer than `bytes` are free on the disk. Called before a large result is computed.
  void check_room(std::uint64_t bytes) const;

 private:
  void check(bool fine, const char* step) const;  // throws with errno's reason
  void open_temporary();                          // throws as the constructor does
  void create_named();
  void name_temporary();

  std::string shown_;  // asked_by and the path as given
  std::string path_;   // with links resolved
  bool is_device_ = false;
  Descriptor file_;
  std::string temporary_;  // empty: the file has no name yet
  RemovalEntry removal_;   // removes that name on a signal
};

// Throws Error(invalid_argument) if two names are one regular file, existing or not: writing `path`, requested by
// `what`, would replace `other`. "-" is not a file.
void check_apart(std::string_view what, const std::string& path, std::string_view other_what, const std::string& other);

// Removes the temporary files of all open AtomicFiles. Safe inside a signal handler.
void remove_temporary_files() noexcept;

}  // namespace strobe
