#include "cli/report/written_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/crc32.h"
#include "core/fail.h"
#include "core/regular_file.h"

namespace strobe::cli {
namespace {

namespace fs = std::filesystem;

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

bool is_unchanged(const fs::path& path, std::uint32_t crc) {
  std::error_code error;
  if (fs::symlink_status(path, error).type() != fs::file_type::regular) return false;
  std::ifstream file(path, std::ios::binary);
  std::uint32_t found = 0;
  char block[1 << 16];
  while (file.read(block, sizeof block) || file.gcount() > 0) {
    found = crc32({block, static_cast<std::size_t>(file.gcount())}, found);
  }
  return !file.bad() && found == crc;
}

}  // namespace

void refuse_to_replace(const std::string& path, std::string_view writer) {
  fail(ErrorCode::invalid_argument, "--output: {}: is there, and not of {}; valid: another place, or remove it first",
       path, writer);
}

void check_replaced(const std::string& path, std::string_view mark, std::string_view writer) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) == 0) return;
  std::ifstream file(path, std::ios::binary);
  std::string head(1024, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  if (head.find(mark) == std::string::npos) refuse_to_replace(path, writer);
}

void check_chosen(const std::string& path, std::string_view mark, std::string_view writer) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return;
  check_regular(status.st_mode, "--output " + path);
  check_replaced(path, mark, writer);
}

void check_default(const std::string& path, std::string_view default_name, std::string_view mark) {
  if (path == default_name) check_chosen(path, mark, "strobe");
}

WrittenFile written_file(std::string name, std::string_view contents) { return {std::move(name), crc32(contents)}; }

void remove_superseded(const std::string& folder, std::span<const WrittenFile> earlier,
                       std::span<const WrittenFile> kept) {
  for (const WrittenFile& one : earlier) {
    const auto same = [&](const WrittenFile& other) { return other.name == one.name; };
    if (!is_plain_name(one.name) || std::any_of(kept.begin(), kept.end(), same)) continue;
    const fs::path path = fs::path(folder.empty() ? "." : folder) / one.name;
    if (!is_unchanged(path, one.crc32)) continue;
    std::error_code error;
    fs::remove(path, error);
    if (error) {
      fail(ErrorCode::runtime, "--output: {}: a file of an earlier run cannot be removed: {}", path.string(),
           error.message());
    }
  }
}

}  // namespace strobe::cli
