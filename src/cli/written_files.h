// Files that an earlier run wrote: only these, and only unchanged, may be removed. `strobe report` and the documents of
// rows keep such a list.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strobe::cli {

struct WrittenFile {
  std::string name;         // without a folder
  std::uint32_t crc32 = 0;  // of its contents
};

WrittenFile written_file(std::string name, std::string_view contents);

// Removes from `folder` each plain file of `earlier` that still has the contents it was written with and is not among
// `kept`. Throws Error(runtime) if the system refuses.
void remove_superseded(const std::string& folder, std::span<const WrittenFile> earlier,
                       std::span<const WrittenFile> kept);

}  // namespace strobe::cli
