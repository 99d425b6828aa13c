// Replaces several files together. Writes and syncs all of them under temporary names before the first rename, and
// keeps the old files as hard links until the last rename. If a rename fails, the old files are restored. A process
// that is killed inside commit() may leave some old and some new files, but each of them is complete.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace strobe {

class FileSet {
 public:
  // `asked_by`, such as a flag, precedes the path in errors.
  explicit FileSet(std::string asked_by = "output") : asked_by_(std::move(asked_by)) {}
  ~FileSet();  // removes all temporary files
  FileSet(const FileSet&) = delete;
  FileSet& operator=(const FileSet&) = delete;

  // Writes and syncs a temporary file in a folder ".strobe-tmp-XXXXXX" next to the target. Only one descriptor per
  // target folder stays open. Follows links and keeps permissions as AtomicFile does; commit() appends to devices.
  // Throws Error(invalid_argument) if the target cannot be written, Error(runtime) if a write or sync fails.
  void add(const std::string& path, std::string_view contents);

  // Renames the temporary files to their targets in the order of add(). If a rename fails, restores the old files and
  // throws Error(runtime). On file systems without hard links it cannot restore them; the error then says how many
  // files were replaced. Also throws Error(runtime) if the folders cannot be synced or a device cannot be written; the
  // new files are then in place.
  void commit();

 private:
  struct Staged {
    std::string temporary, target, shown;
    std::string backup{};  // hard link to the old file; empty if there is none
    bool is_new = false;   // no old file exists
  };
  struct Folder {
    std::string path;
    int descriptor = -1;  // holds the lock that marks the folder as in use
  };
  struct Device {
    std::string path, contents;
  };

  Folder& staging_in(const std::string& folder, const std::string& shown);
  void keep_old_file(Staged& file, std::size_t number);
  std::size_t undo(std::size_t renamed) noexcept;
  void remove_staged() noexcept;

  std::string asked_by_;
  std::map<std::string, Folder> folders_;  // staging folders; key: the folder of their targets
  std::vector<Staged> staged_;
  std::vector<Device> devices_;
};

// Removes staging folders in `folder` that killed processes left. Staging folders of running processes are locked and
// stay.
void remove_stale_staging(const std::string& folder);

}  // namespace strobe
