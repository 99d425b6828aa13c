// A list of the files that a signal handler removes. AtomicFile uses it.
#pragma once

#include <string>

namespace strobe {

struct RemovalNode;

// One entry in the list. Call set() before creating the file and clear() after renaming or removing it, so that a
// signal leaves no file. The list is unbounded and lock-free; nodes are reused and never freed.
class RemovalEntry {
 public:
  RemovalEntry() = default;
  ~RemovalEntry() { clear(); }
  RemovalEntry(const RemovalEntry&) = delete;
  RemovalEntry& operator=(const RemovalEntry&) = delete;

  // Throws std::bad_alloc. Ignores a path longer than PATH_MAX, because open() rejects it.
  void set(const std::string& path);
  void clear() noexcept;

 private:
  RemovalNode* node_ = nullptr;
};

// Removes every file in the list. Safe inside a signal handler.
void remove_listed_files() noexcept;

}  // namespace strobe
