// Implements ResultFile with flock, pwrite and fdatasync, and JsonFolder.
#include "bench/sweep/result_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <unordered_set>
#include <utility>

#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/json_lines.h"
#include "core/mapped_file.h"
#include "core/regular_file.h"
#include "core/sync_folder.h"

namespace strobe::bench {
namespace {

// A child that a killed sweep had just forked may hold the lock for some milliseconds, so locking is retried.
constexpr int kLockTries = 20;
constexpr auto kLockPause = std::chrono::milliseconds(50);

std::string shown(const std::string& path) { return "--output " + (path.empty() ? "\"\"" : path); }

[[noreturn]] void refuse(const std::string& path, int error) {
  fail(ErrorCode::invalid_argument, "{}: cannot be written: {}", shown(path), std::strerror(error));
}

[[noreturn]] void refuse_busy(const std::string& path) {
  fail(ErrorCode::invalid_argument, "{}: another sweep writes to it; each sweep needs a separate file", shown(path));
}

void lock_file(int descriptor, const std::string& path) {
  for (int tries = 1; flock(descriptor, LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (errno != EWOULDBLOCK && errno != EINTR) refuse(path, errno);
    if (tries == kLockTries) refuse_busy(path);
    std::this_thread::sleep_for(kLockPause);
  }
}

// Maps a duplicate of the descriptor.
MappedFile mapped(const Descriptor& file, const std::string& path) {
  return MappedFile(Descriptor(fcntl(file.get(), F_DUPFD_CLOEXEC, 0)), shown(path));
}

}  // namespace

std::size_t parse_rows(std::string_view text, const std::string& shown, const AcceptRow& accept) {
  return for_each_whole_line(text, kRowBegin, shown, [&](std::string_view line, int number) {
    Json row;
    try {
      row = Json::parse(line);
    } catch (const Error& error) {
      fail(ErrorCode::invalid_argument, "{}: line {} is not a row of a sweep: {}", shown, number, error.what());
    }
    accept(row, number);
  });
}

void read_rows(const std::string& path, const AcceptRow& accept) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 && errno == ENOENT) return;
  parse_rows(MappedFile(path, shown(path)).text(), shown(path), accept);
}

void ResultFile::open_locked() {
  file_ = open_regular(path_, O_RDWR | O_CREAT, shown(path_));
  lock_file(file_.get(), path_);
  struct stat opened {
  }, named{};
  if (fstat(file_.get(), &opened) != 0 || stat(path_.c_str(), &named) != 0) refuse(path_, errno);
  if (opened.st_ino != named.st_ino) refuse_busy(path_);  // another sweep's drop() replaced the file
}

ResultFile::ResultFile(std::string path, const AcceptRow& accept) : path_(std::move(path)) {
  if (path_.empty()) fail(ErrorCode::invalid_argument, "{}: a file name is needed", shown(path_));
  open_locked();
  {
    const MappedFile contents = mapped(file_, path_);
    size_ = static_cast<std::int64_t>(parse_rows(contents.text(), shown(path_), accept));
    torn_ = static_cast<std::int64_t>(contents.bytes()) - size_;
  }
  if (torn_ > 0 && (ftruncate(file_.get(), size_) != 0 || fsync(file_.get()) != 0)) refuse(path_, errno);
  if (size_ > 0) return;
  const int error = sync_folder(folder_of(path_));  // makes a new file's name durable before its first row
  if (error != 0) fail(ErrorCode::runtime, "{}: syncing its folder failed: {}", shown(path_), std::strerror(error));
}

void ResultFile::drop(const std::function<bool(const Json& row)>& is_dropped) {
  std::string kept;
  for_each_whole_line(mapped(file_, path_).text(), kRowBegin, shown(path_), [&](std::string_view line, int) {
    if (!is_dropped(Json::parse(line))) kept.append(line) += '\n';
  });
  AtomicFile(path_, "--output", AtomicFile::Links::refuse).commit(kept);
  file_.reset();
  open_locked();
  size_ = static_cast<std::int64_t>(kept.size());
}

void ResultFile::append(const Json& row) {
  const std::string line = row.dump() + "\n";
  const auto give_up = [&](const char* step) {
    const int error = errno;
    const bool cut = ftruncate(file_.get(), size_) == 0;
    fail(ErrorCode::runtime, "{}: {} failed: {}{}", shown(path_), step, std::strerror(error),
         cut ? "" : "; its last line is incomplete");
  };
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t written = pwrite(file_.get(), line.data() + done, line.size() - done,
                                   static_cast<off_t>(size_) + static_cast<off_t>(done));
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = ENOSPC;
    if (written <= 0) give_up("writing");
    done += static_cast<std::size_t>(written);
  }
  if (fdatasync(file_.get()) != 0) give_up("syncing");
  size_ += static_cast<std::int64_t>(line.size());
}

std::string source_file_name(const Json& config, const std::string& implementation) {
  const std::string name = implementation == "flash2"     ? "Flash2"
                           : implementation == "standard" ? "Pytorch"
                                                          : implementation;
  const auto number = [&](const char* key) { return config.at(key).as_integer(); };
  return fmt::format("result_bs{}_sl{}_nh{}_ed{}_{}_causal{}.json", number("batch_size"), number("seq_len"),
                     number("num_heads"), number("emb_dim"), name, config.at("causal").as_bool() ? "_causal" : "");
}

JsonFolder::JsonFolder(std::string path, const std::vector<SweepProblem>& problems) : path_(std::move(path)) {
  std::unordered_set<std::string> names;
  for (const SweepProblem& problem : problems) {
    for (const std::string& implementation : problem.implementations) {
      const std::string name = source_file_name(problem.config, implementation);
      if (names.insert(name).second) continue;
      fail(ErrorCode::invalid_argument,
           "--json-dir {}: two cells would have the file name {}, which encodes only batch, sequence, heads, "
           "embedding, implementation "
           "and "
           "causal; valid: one value of every other axis",
           path_, name);
    }
  }
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(path_, error);
  const std::filesystem::path found = std::filesystem::exists(whole, error) ? whole : whole.parent_path();
  if (!std::filesystem::is_directory(found, error) || access(found.c_str(), W_OK | X_OK) != 0) {
    fail(ErrorCode::invalid_argument, "--json-dir {}: not a writable folder, and it cannot be created", path_);
  }
}

void JsonFolder::create() const {
  std::error_code error;
  std::filesystem::create_directory(path_, error);
  if (error) fail(ErrorCode::runtime, "--json-dir {}: {}", path_, error.message());
}

std::string JsonFolder::path_of(const Json& row) const {
  return path_ + "/" + source_file_name(row.at("config"), row.at("implementation").as_string());
}

void JsonFolder::write(const Json& row) const {
  AtomicFile(path_of(row), "--json-dir", AtomicFile::Links::refuse).commit(row.dump(1) + "\n");
}

void JsonFolder::write_if_missing(const Json& row) const {
  if (!std::filesystem::exists(path_of(row))) write(row);
}

}  // namespace strobe::bench
