// Files under names that the program chooses. Only those that an earlier run wrote may be replaced, and only unchanged
// ones removed. `strobe report` and the documents of rows keep a list of them.
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

// Text near the beginning of every chart.
inline constexpr const char* kChartMark = "font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\"";

// Throws Error(invalid_argument) if `path` is a regular file that is not empty and lacks `mark` in its first 1024
// bytes: strobe did not write it. An empty file is accepted: the user may have created it for the output. `writer`,
// such as "a report of strobe", is part of the error.
void check_replaced(const std::string& path, std::string_view mark, std::string_view writer);

// The same for a name that the user did not give: links, FIFOs and devices are refused too.
void check_chosen(const std::string& path, std::string_view mark, std::string_view writer);

// The same for an output if it is the flag's default.
void check_default(const std::string& path, std::string_view default_name, std::string_view mark);

[[noreturn]] void refuse_to_replace(const std::string& path, std::string_view writer);

// Removes each regular file of `earlier` from `folder` unless it was changed or is among `kept`. Throws Error(runtime)
// if the system refuses.
void remove_superseded(const std::string& folder, std::span<const WrittenFile> earlier,
                       std::span<const WrittenFile> kept);

}  // namespace strobe::cli
