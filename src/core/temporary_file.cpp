// Names, finds and removes temporary files.
#include "core/temporary_file.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <vector>

#include "core/crc32.h"
#include "core/descriptor.h"
#include "core/fail.h"
#include "core/file_names.h"

namespace strobe {
namespace {

constexpr std::string_view kTemporaryMark = ".strobe-tmp-";
constexpr std::string_view kAlphanumerics = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
constexpr std::size_t kRandomLetters = 6, kTemporarySuffix = kTemporaryMark.size() + kRandomLetters;
constexpr std::size_t kMaxStemBytes = NAME_MAX - kTemporarySuffix;

// Returns the first `most` bytes of `text`, or fewer to end between UTF-8 characters. `text` must be longer than
// `most`.
std::string_view beginning_of(std::string_view text, std::size_t most) {
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return text.substr(0, most);
}

bool is_same_file(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

void remove_unless_held(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat opened {
  }, named{};
  if (!file || fstat(file.get(), &opened) != 0 || !S_ISREG(opened.st_mode)) return;
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) return;
  // The owner may have renamed the file before it released the lock, so check that the path still names it.
  if (lstat(path.c_str(), &named) == 0 && is_same_file(opened, named)) unlink(path.c_str());
}

}  // namespace

std::string temporary_stem(std::string_view target) {
  if (target.size() <= kMaxStemBytes) return std::string(target);
  constexpr std::size_t kChecksumLetters = 9;  // "~" and eight digits
  return fmt::format("{}~{:08x}", beginning_of(target, kMaxStemBytes - kChecksumLetters), crc32(target));
}

std::string temporary_name(std::string_view target) {
  std::random_device random;
  std::string name = temporary_stem(target) + std::string(kTemporaryMark);
  for (std::size_t i = 0; i < kRandomLetters; ++i) name += kAlphanumerics[random() % kAlphanumerics.size()];
  return name;
}

std::optional<std::string_view> stem_of_temporary(std::string_view name) {
  if (name.size() <= kTemporarySuffix) return std::nullopt;
  const std::string_view stem = name.substr(0, name.size() - kTemporarySuffix), suffix = name.substr(stem.size());
  const std::string_view letters = suffix.substr(kTemporaryMark.size());
  const bool is_one =
      suffix.starts_with(kTemporaryMark) && letters.find_first_not_of(kAlphanumerics) == std::string_view::npos;
  return is_one ? std::optional(stem) : std::nullopt;
}

void remove_stale_temporaries(const std::string& folder, const std::function<bool(std::string_view stem)>& is_known) {
  std::error_code error;
  std::vector<std::string> found;
  for (const std::string& name : file_names(folder, error)) {
    const std::optional<std::string_view> stem = stem_of_temporary(name);
    if (stem && is_known(*stem)) found.push_back(folder + "/" + name);
  }
  for (const std::string& path : found) remove_unless_held(path);
}

}  // namespace strobe
