// Implements the row reader. Files are untrusted, so each error names the file and the line.
#include "results/each_row.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/fail.h"
#include "results/row_splitter.h"
#include "results/schema.h"

namespace strobe {
namespace {

constexpr std::uintmax_t kMaxBytes = std::uintmax_t{1} << 30;

// Rejects paths that are not regular files: opening a FIFO without a writer would block. Accepts pipes that the shell
// has opened (/dev/stdin, /dev/fd).
void check_kind(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (error || std::filesystem::is_regular_file(status)) return;
  if (path == "/dev/stdin" || path.starts_with("/dev/fd/")) return;
  fail(ErrorCode::invalid_argument, "{}: {}; valid: a result file, or /dev/stdin", path,
       std::filesystem::is_directory(status) ? "is a folder" : "is not a regular file");
}

// Parses rows and passes them to `take`. Every error becomes "FILE, line N: what is wrong".
class RowReader {
 public:
  RowReader(const std::string& name, const TakeRow& take)
      : name_(name), take_(take), splitter_([this](const RowSplitter::Row& row) { take_row(row); }) {}

  void add(std::string_view block) {
    guarded([&] { splitter_.add(block); });
  }

  void finish() {
    guarded([&] { splitter_.finish(); });
    if (!any_) fail(ErrorCode::invalid_argument, "{}: contains no result", name_);
  }

 private:
  void take_row(const RowSplitter::Row& row) {
    Json value;
    std::size_t position = 0;
    fault_line_ = row.line;
    try {
      value = parse(row.text, position);
    } catch (const Error& error) {
      const std::string_view before = row.text.substr(0, position);
      fault_line_ = row.line + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
      std::string_view why = error.what();
      if (why.starts_with("json: ")) why.remove_prefix(6);
      fail(ErrorCode::invalid_argument, "not JSON: {}", why);
    }
    take_value(std::move(value));
    fault_line_ = 0;
  }

  void take_value(Json value) {
    const Json* rows = value.is_object() ? value.find("rows") : nullptr;
    if (!rows || !rows->is_array()) return take_one(std::move(value));
    for (std::size_t i = 0; i < rows->size(); ++i) {
      try {
        Json row = rows->as_array()[i];
        const Json* environment = value.find("environment");
        if (environment && row.is_object() && !row.find("environment")) row.set("environment", *environment);
        take_one(std::move(row));
      } catch (const Error& error) {
        fail(ErrorCode::invalid_argument, "row {}: {}", i + 1, error.what());
      }
    }
  }

  void take_one(Json row) {
    any_ = true;
    take_(converted_row(std::move(row)));
  }

  static Json parse(std::string_view text, std::size_t& position) {
    Json value = Json::parse_next(text, position);
    if (position < text.size()) fail(ErrorCode::invalid_argument, "text after the value");
    return value;
  }

  void guarded(const std::function<void()>& work) const {
    try {
      work();
    } catch (const Error& error) {
      const std::size_t line = fault_line_ > 0 ? fault_line_ : splitter_.line(), item = splitter_.list_item();
      fail(ErrorCode::invalid_argument, "{}, line {}{}: {}", name_, line,
           item > 0 ? fmt::format(", item {} of the list", item) : "", error.what());
    }
  }

  const std::string& name_;
  const TakeRow& take_;
  RowSplitter splitter_;
  std::size_t fault_line_ = 0;  // line of the current row; 0: between rows
  bool any_ = false;
};

}  // namespace

void each_row(std::string_view text, const std::string& name, const TakeRow& take) {
  RowReader reader(name, take);
  reader.add(text);
  reader.finish();
}

void each_row_of_file(const std::string& path, const TakeRow& take) {
  if (path.empty()) fail(ErrorCode::invalid_argument, "\"\": not a file name");
  check_kind(path);
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorCode::invalid_argument, "{}: cannot be read: {}", path, std::strerror(errno));
  RowReader reader(path, take);
  char block[1 << 16];
  std::uintmax_t bytes = 0;
  while (file.read(block, sizeof(block)) || file.gcount() > 0) {
    bytes += static_cast<std::uintmax_t>(file.gcount());
    if (bytes > kMaxBytes) fail(ErrorCode::invalid_argument, "{}: larger than 1 GiB; valid: at most 1 GiB", path);
    reader.add({block, static_cast<std::size_t>(file.gcount())});
  }
  if (file.bad()) fail(ErrorCode::invalid_argument, "{}: cannot be read", path);
  reader.finish();
}

}  // namespace strobe
