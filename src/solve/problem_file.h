// The two files of `strobe solve`, all integers and floats little-endian:
//   problem  int32 B, N, d; then for each batch Q [N, d], K [N, d], V [N, d], float32, row-major
//   answer   for each batch O [N, d], float32; no header
// Read and written here alone; solve, cases and the ladder's driver call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/atomic_file.h"
#include "core/mapped_file.h"

namespace strobe::solve {

struct ProblemSize {
  std::int64_t batch = 0;  // B
  std::int64_t rows = 0;   // N, of Q, K, V and O
  std::int64_t dim = 0;    // d

  std::int64_t elements() const { return rows * dim; }  // of one of Q, K, V, O of a batch
  std::int64_t total() const { return batch * elements(); }
  bool operator==(const ProblemSize&) const = default;
};

inline constexpr std::size_t kHeaderBytes = 12;

// A problem that was checked whole and mapped: the file is exactly as long as its header says. No product of a
// ProblemSize that came from here overflows, in bytes of the file neither.
class ProblemFile {
 public:
  // Throws Error(invalid_argument), one line with the values, for what cannot be opened, is not a regular file, is
  // shorter or longer than its header says, or has a size below 1. Nothing is read but the header.
  explicit ProblemFile(const std::string& path);

  const ProblemSize& size() const { return size_; }

  // [N, d] each, aligned to 4 bytes; the next batch's lie 3 * elements() further.
  const float* q(std::int64_t batch) const { return floats_ + 3 * batch * size_.elements(); }
  const float* k(std::int64_t batch) const { return q(batch) + size_.elements(); }
  const float* v(std::int64_t batch) const { return q(batch) + 2 * size_.elements(); }

  // Brings batches [begin, end) into memory, and lets go of them; the mapping stays valid in either case. Any thread.
  void load(std::int64_t begin, std::int64_t end) const;
  void unload(std::int64_t begin, std::int64_t end) const;

  // Reads `count` floats from the place of q(batch) on, past the mapping: [Q, K, V] of one batch after the other.
  // Throws Error(runtime) where the file has become shorter or the disk fails. Any thread.
  void read(std::int64_t batch, std::int64_t offset, std::int64_t count, float* to) const;

 private:
  std::string path_;
  MappedFile file_;
  const float* floats_ = nullptr;
  ProblemSize size_;
};

// An answer in the making: a temporary file beside `path` until commit(), removed by every other end, signals included
// (core/atomic_file.h).
class AnswerFile {
 public:
  // Throws Error(invalid_argument) where nothing can be written there, Error(runtime) where the disk lacks the room.
  AnswerFile(std::string path, const ProblemSize& size);

  // The next `count` floats, from the first row of the first batch to the last of the last. Any one thread at a time.
  void write(const float* values, std::int64_t count);

  // All of them must have been written.
  void commit();

 private:
  AtomicFile file_;
  std::int64_t left_;  // floats
};

}  // namespace strobe::solve
