// The two files of `strobe solve`, all integers and floats little-endian:
//   problem  int32 B, N, d; then for each batch Q [N, d], K [N, d], V [N, d], float32, row-major
//   answer   for each batch O [N, d], float32; no header
// All reading and writing of these files is here; solve, cases and the ladder's driver use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/atomic_file.h"
#include "core/mapped_file.h"

namespace strobe::solve {

struct ProblemSize {
  std::int64_t batch = 0;  // B
  std::int64_t rows = 0;   // N, rows of Q, K, V and O
  std::int64_t dim = 0;    // d

  std::int64_t elements() const { return rows * dim; }  // elements of Q, K, V or O per batch
  std::int64_t total() const { return batch * elements(); }
  bool operator==(const ProblemSize&) const = default;
};

inline constexpr std::size_t kHeaderBytes = 12;

// A validated, mapped problem file. Its size is exactly what its header requires. No product of the sizes overflows,
// including the file size in bytes.
class ProblemFile {
 public:
  // Throws Error(invalid_argument) with one line and the values if the file cannot be opened, is not a regular file, is
  // shorter or longer than its header requires, or has a size below 1. Reads the header only.
  explicit ProblemFile(const std::string& path);

  const ProblemSize& size() const { return size_; }

  // [N, d] each, aligned to 4 bytes; the next batch's follow 3 * elements() later.
  const float* q(std::int64_t batch) const { return floats_ + 3 * batch * size_.elements(); }
  const float* k(std::int64_t batch) const { return q(batch) + size_.elements(); }
  const float* v(std::int64_t batch) const { return q(batch) + 2 * size_.elements(); }

  // load() brings batches [begin, end) into memory, unload() releases them; the mapping stays valid. Thread-safe.
  void load(std::int64_t begin, std::int64_t end) const;
  void unload(std::int64_t begin, std::int64_t end) const;

  // Reads `count` floats starting at q(batch) + `offset`, bypassing the mapping: [Q, K, V] of one batch after the
  // other. Throws Error(runtime) if the file has become shorter or the disk fails. Thread-safe.
  void read(std::int64_t batch, std::int64_t offset, std::int64_t count, float* to) const;

 private:
  std::string path_;
  MappedFile file_;
  const float* floats_ = nullptr;
  ProblemSize size_;
};

// An answer that is being written: a temporary file in the folder of `path` until commit(). Without commit() it is
// removed, also after a signal (core/atomic_file.h).
class AnswerFile {
 public:
  // Throws Error(invalid_argument) if the path is not writable, Error(runtime) if the disk is full.
  AnswerFile(std::string path, const ProblemSize& size);

  // Writes the next `count` floats, from the first row of the first batch to the last row of the last. One thread at a
  // time.
  void write(const float* values, std::int64_t count);

  // Requires that all floats have been written.
  void commit();

 private:
  AtomicFile file_;
  std::int64_t left_;  // remaining floats
};

}  // namespace strobe::solve
