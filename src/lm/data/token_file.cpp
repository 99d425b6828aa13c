// Maps data files, checks their tokens, and computes the order of windows.
#include "lm/data/token_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "core/crc32.h"
#include "core/divide.h"
#include "core/fail.h"
#include "core/philox.h"
#include "core/printable.h"
#include "device/host/thread_pool.h"

namespace strobe::lm {

namespace {

static_assert(std::endian::native == std::endian::little, "tokens are read without byte swapping");

constexpr std::int64_t kUint16Tokens = 65536;
constexpr std::size_t kChunkBytes = std::size_t{1} << 20;  // bytes per task; scan_chunk() reads a chunk twice

std::size_t bytes_of_a_token(DataFormat format) {
  switch (format) {
    case DataFormat::text: return 1;
    case DataFormat::tokens: return 2;
    case DataFormat::tokens32: return 4;
  }
  return 1;
}

}  // namespace

const char* name_of(DataFormat format) {
  switch (format) {
    case DataFormat::text: return "text";
    case DataFormat::tokens: return "tokens";
    case DataFormat::tokens32: return "tokens32";
  }
  return "";
}

DataFormat data_format(std::string_view word, std::string_view path) {
  for (const DataFormat format : {DataFormat::text, DataFormat::tokens, DataFormat::tokens32}) {
    if (word == name_of(format)) return format;
  }
  return path.ends_with(".bin") || path.ends_with(".tokens") ? DataFormat::tokens : DataFormat::text;
}

TokenFile::TokenFile(const std::string& path, DataFormat format, std::string_view flag)
    : shown_(fmt::format("{} {}", flag, printable_value(path))), format_(format), file_(path, shown_) {
  const std::size_t token = bytes_of_a_token(format);
  if (file_.bytes() % token != 0) {
    fail(ErrorCode::invalid_argument,
         "{}: its {} bytes are not a multiple of the token size {}; --data-format text reads bytes", shown_,
         file_.bytes(), token);
  }
  count_ = static_cast<std::int64_t>(file_.bytes() / token);
}

std::uint32_t TokenFile::at(std::int64_t index) const {
  const std::size_t bytes = bytes_of_a_token(format_);
  std::uint32_t token = 0;
  std::memcpy(&token, static_cast<const char*>(file_.data()) + bytes * static_cast<std::size_t>(index), bytes);
  return token;
}

// Computes the Scan of one chunk, two uint16 words at a time. `first_byte` is a multiple of 4.
TokenFile::Scan TokenFile::scan_chunk(std::size_t first_byte, std::size_t bytes) const {
  const std::string_view chunk = file_.text().substr(first_byte, bytes);
  Scan scan{.checksum = crc32(chunk)};
  if (format_ == DataFormat::text) return scan;
  std::uint32_t largest_pair = 0, even = 0, odd = 0;
  const auto add = [&](std::uint32_t pair) {
    const std::uint32_t low = pair & 0xffff, high = pair >> 16;
    even = low > even ? low : even;
    odd = high > odd ? high : odd;
    largest_pair = pair > largest_pair ? pair : largest_pair;
  };
  const std::size_t pairs = chunk.size() / sizeof(std::uint32_t);
  for (std::size_t i = 0; i < pairs; ++i) {
    std::uint32_t pair;
    std::memcpy(&pair, chunk.data() + i * sizeof(pair), sizeof(pair));
    add(pair);
  }
  std::uint32_t last = 0;  // the file may have an odd number of uint16 words; the missing one counts as 0
  std::memcpy(&last, chunk.data() + pairs * sizeof(last), chunk.size() % sizeof(last));
  add(last);
  scan.largest_even = even;
  scan.largest_odd = odd;
  scan.largest = format_ == DataFormat::tokens32 ? largest_pair : std::max(even, odd);
  return scan;
}

const TokenFile::Scan& TokenFile::scan() const {
  if (scan_) return *scan_;
  const auto size_of_chunk = [&](std::size_t chunk) {
    return std::min(kChunkBytes, file_.bytes() - chunk * kChunkBytes);
  };
  std::vector<Scan> chunks(static_cast<std::size_t>(
      ceil_div(static_cast<std::int64_t>(file_.bytes()), static_cast<std::int64_t>(kChunkBytes))));
  parallel_for(available_cores(), static_cast<std::int64_t>(chunks.size()), [&](int, std::int64_t task) {
    const auto chunk = static_cast<std::size_t>(task);
    chunks[chunk] = scan_chunk(chunk * kChunkBytes, size_of_chunk(chunk));
  });
  Scan whole;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    whole.checksum = crc32_joined(whole.checksum, chunks[i].checksum, size_of_chunk(i));
    whole.largest = std::max(whole.largest, chunks[i].largest);
    whole.largest_even = std::max(whole.largest_even, chunks[i].largest_even);
    whole.largest_odd = std::max(whole.largest_odd, chunks[i].largest_odd);
  }
  return scan_.emplace(whole);
}

// Throws if the file probably has uint32 tokens although the format is uint16. In such a file the low and high halves
// of tokens alternate, and the high halves are near 0 because the vocabulary is small.
void TokenFile::check_width(std::int64_t vocabulary) const {
  constexpr std::int64_t kFewest = 16;         // words needed for a decision
  constexpr std::uint32_t kTimesLarger = 256;  // the file is uint32 if largest_even > this * largest_odd
  if (format_ != DataFormat::tokens) return;
  if (vocabulary > kUint16Tokens) {
    fail(ErrorCode::invalid_argument,
         "{}: the largest uint16 token is {}, but the vocabulary has {}; valid: --data-format tokens32, which reads "
         "uint32, or a vocabulary of at most {}",
         shown_, kUint16Tokens - 1, vocabulary, kUint16Tokens);
  }
  if (count_ < kFewest || kTimesLarger * scan().largest_odd >= scan().largest_even) return;
  fail(
      ErrorCode::invalid_argument,
      "{}: its tokens are uint32, not uint16: every other uint16 word is at most {}; --data-format tokens32 reads them",
      shown_, scan().largest_odd);
}

void TokenFile::check_vocabulary(std::int64_t vocabulary) const {
  if (format_ == DataFormat::text && vocabulary >= kBytes) return;
  check_width(vocabulary);
  if (format_ != DataFormat::text && scan().largest < vocabulary) return;
  std::int64_t first = 0;
  while (first < count_ && at(first) < vocabulary) ++first;
  if (first == count_) return;
  fail(ErrorCode::invalid_argument, "{}: its token {} is {}; valid: 0 to {} (--vocabulary {})", shown_, first,
       at(first), vocabulary - 1, vocabulary);
}

std::int64_t TokenFile::windows(std::int64_t context) const {
  if (count_ > context) return count_ - context;
  fail(ErrorCode::invalid_argument, "{}: has {} tokens; a context of {} needs at least {}", shown_, count_, context,
       context + 1);
}

void TokenFile::read_window(std::int64_t first, std::int64_t length, std::int32_t* tokens,
                            std::int32_t* targets) const {
  for (std::int64_t t = 0; t < length; ++t) {
    tokens[t] = static_cast<std::int32_t>(at(first + t));
    targets[t] = static_cast<std::int32_t>(at(first + t + 1));
  }
}

namespace {

constexpr std::uint32_t kRounds = 6;
constexpr std::uint32_t kOrderStream = 0x64617461;  // random stream that only WindowOrder uses

}  // namespace

// --- WindowOrder -----------------------------------------------------------------------------------------------------

// Computes a permutation without storing it. A Feistel network permutes the integers of 2 * half_bits_ bits, the
// smallest even number of bits that holds every window. While the result is not a window, at() applies the network
// again (cycle walking): fewer than four times on average.
WindowOrder::WindowOrder(std::uint64_t seed, std::int64_t windows)
    : seed_(seed), windows_(static_cast<std::uint64_t>(windows)), half_bits_((std::bit_width(windows_ - 1) + 1) / 2) {}

std::int64_t WindowOrder::at(std::int64_t position) const {
  const auto index = static_cast<std::uint64_t>(position);
  const auto epoch = static_cast<std::uint32_t>(index / windows_);
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t number = index % windows_;
  do {
    std::uint64_t left = number >> half_bits_, right = number & mask;
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      const std::uint64_t mixed =
          left ^ philox({static_cast<std::uint32_t>(right), round, epoch, kOrderStream}, seed_)[0];
      left = right;
      right = mixed & mask;
    }
    number = left << half_bits_ | right;
  } while (number >= windows_);
  return static_cast<std::int64_t>(number);
}

}  // namespace strobe::lm
