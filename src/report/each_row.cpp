// Takes files of rows apart. Files are not trusted: a fault names file and line.
#include "report/each_row.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/fail.h"

namespace strobe::report {
namespace {

constexpr std::uintmax_t kMostBytes = std::uintmax_t{1} << 30;

// Opening a pipe that nobody writes to would wait for ever; one that the shell has opened is fine.
void check_kind(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (error || std::filesystem::is_regular_file(status)) return;
  if (path == "/dev/stdin" || path.starts_with("/dev/fd/")) return;
  fail(ErrorCode::invalid_argument, "{}: {}; valid: a result file, or /dev/stdin", path,
       std::filesystem::is_directory(status) ? "is a folder" : "is not a plain file");
}

}  // namespace

void each_row(std::string_view text, const std::string& name, const TakeRow& take) {
  std::size_t position = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  std::size_t fault = 0;      // byte that an error is told at: where the text is wrong, or where the value begins
  std::size_t list_item = 0;  // from 1 on inside a list
  bool any = false;
  const auto take_one = [&](const Json& row) {
    any = true;
    take(row);
  };
  try {
    while (position < text.size()) {
      const std::size_t begin = position;
      list_item = 0;
      Json value;
      try {
        value = Json::parse_next(text, position);
      } catch (const Error& error) {
        fault = position;
        std::string_view why = error.what();
        if (why.starts_with("json: ")) why.remove_prefix(6);
        fail(ErrorCode::invalid_argument, "not JSON: {}", why);
      }
      fault = begin;
      if (!value.is_array()) {
        take_one(value);
        continue;
      }
      for (const Json& row : value.as_array()) {
        ++list_item;
        take_one(row);
      }
    }
  } catch (const Error& error) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(fault), '\n');
    const std::string item = list_item > 0 ? fmt::format(", item {} of the list", list_item) : "";
    fail(ErrorCode::invalid_argument, "{}, line {}{}: {}", name, line, item, error.what());
  }
  if (!any) fail(ErrorCode::invalid_argument, "{}: no result in it", name);
}

void each_row_of_file(const std::string& path, const TakeRow& take) {
  if (path.empty()) fail(ErrorCode::invalid_argument, "\"\": not the name of a file");
  check_kind(path);
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorCode::invalid_argument, "{}: cannot be read: {}", path, std::strerror(errno));
  std::ostringstream text;
  char block[1 << 16];
  std::uintmax_t bytes = 0;
  while (file.read(block, sizeof(block)) || file.gcount() > 0) {
    bytes += static_cast<std::uintmax_t>(file.gcount());
    if (bytes > kMostBytes) fail(ErrorCode::invalid_argument, "{}: more than 1 GB is not a result file", path);
    text.write(block, file.gcount());
  }
  if (file.bad()) fail(ErrorCode::invalid_argument, "{}: cannot be read", path);
  each_row(text.view(), path, take);
}

}  // namespace strobe::report
