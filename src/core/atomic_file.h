// AtomicFile replaces a file completely or not at all. It writes a temporary file in the same folder, syncs it, and
// links or renames it to the target.
//
// The temporary file has a name, NAME.strobe-tmp-XXXXXX (temporary_file.h), only during a rename, after temporary(), or
// if the file system has no O_TMPFILE. A process that is killed while the file has a name leaves the file behind. The
// next AtomicFile for the same NAME removes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/descriptor.h"
#include "core/removal_list.h"

namespace strobe {

class AtomicFile {
 public:
  // Handling of a path that is a symbolic link. `follow` keeps the link and replaces its target; it is for paths that
  // the user gave. `refuse` throws; it is for names that the program chose inside a folder.
  enum class Links { follow, refuse };

  // Opens the temporary file at once, so that an unwritable path fails before any work is done. The new file gets the
  // permissions of the file it replaces, but not its owner and extended attributes. Other hard links keep the old
  // contents. Devices, FIFOs, /dev/stdout, /dev/stderr, /dev/fd/* and /proc/* are not replaced; text is appended to
  // them. Throws Error(invalid_argument) with the text of errno if the path cannot be written. `asked_by`, for example
  // a flag, precedes the path in the message.
  explicit AtomicFile(std::string path, std::string asked_by = "output", Links links = Links::follow);
  ~AtomicFile();  // removes the temporary file if commit was not reached
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // True if the path is a device, FIFO or descriptor: text is appended to it, and nothing is replaced.
  bool is_device() const { return is_device_; }

  // Returns the path of the temporary file; names it first if it has no name. Empty for a device. The destructor and
  // remove_temporary_files() remove the file. Throws Error(runtime).
  const std::string& temporary();

  // Appends to the temporary file, or directly to a device. Throws Error(runtime) if the write fails; the old file is
  // then unchanged.
  void write(std::string_view contents);

  // Syncs the temporary file, links or renames it to the target, and syncs the folder (sync_folder.h). Throws
  // Error(runtime). If only the folder sync fails, the new file is in place, but a power failure may restore the old
  // one. After any other failure the old file is unchanged.
  void commit();
  void commit(std::string_view contents) {
    write(contents);
    commit();
  }

  // Throws Error(runtime) if the file system has fewer than `bytes` bytes free. Call it before computing a large
  // result.
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

// Throws Error(invalid_argument) if `path` and `other` name the same file. `what` and `other_what` are the flags that
// gave them. The file need not exist. Compares only regular files; "-" is not a file.
void check_apart(std::string_view what, const std::string& path, std::string_view other_what, const std::string& other);

// Removes the temporary files of all open AtomicFiles. Safe inside a signal handler.
void remove_temporary_files() noexcept;

}  // namespace strobe
