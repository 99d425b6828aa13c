// Reads problem files and writes answer files, the two file formats of `strobe solve`. Numbers are little-endian:
//   problem  int32 B, N, d; then for each batch Q [N, d], K [N, d], V [N, d], float32, row-major
//   answer   for each batch O [N, d], float32; no header
// `strobe solve`, `strobe cases` and strobe-lab use it.
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

// A memory-mapped problem file whose size is exactly what its header requires. No product of B, N and d overflows, nor
// does the file size in bytes.
class ProblemFile {
 public:
  // Throws Error(invalid_argument) if the file cannot be opened or is not a regular file, or if B, N or d is below 1.
  // Also throws if the file is shorter or longer than its header requires. Reads only the header.
  explicit ProblemFile(const std::string& path);

  const ProblemSize& size() const { return size_; }

  // Q, K and V of a batch: [N, d] each, aligned to 4 bytes. The next batch starts 3 * elements() floats later.
  const float* q(std::int64_t batch) const { return floats_ + 3 * batch * size_.elements(); }
  const float* k(std::int64_t batch) const { return q(batch) + size_.elements(); }
  const float* v(std::int64_t batch) const { return q(batch) + 2 * size_.elements(); }

  // Reads the pages of batches [begin, end) into memory. Throws Error(runtime) if the system reports that they cannot
  // be read. Thread-safe.
  void load(std::int64_t begin, std::int64_t end) const;

  // Releases the pages of batches [begin, end); the mapping stays valid. Thread-safe.
  void unload(std::int64_t begin, std::int64_t end) const;

  // Copies `count` floats that start at q(batch) + offset to `to`, with pread() instead of the mapping. They may extend
  // over several batches. Throws Error(runtime) if the file has become shorter or the disk fails. Thread-safe.
  void read(std::int64_t batch, std::int64_t offset, std::int64_t count, float* to) const;

 private:
  std::string path_;
  MappedFile file_;
  const float* floats_ = nullptr;
  ProblemSize size_;
};

// Writes an answer to a temporary file in the folder of `path`; commit() renames it to `path`. Without commit() the
// temporary file is removed, also after a signal (core/atomic_file.h).
class AnswerFile {
 public:
  // Throws Error(invalid_argument) if the path is not writable, Error(runtime) if the disk is full.
  AnswerFile(std::string path, const ProblemSize& size);

  // Appends `count` floats. Not thread-safe.
  void write(const float* values, std::int64_t count);

  // Throws Error(runtime) unless size.total() floats have been written.
  void commit();

 private:
  AtomicFile file_;
  std::int64_t left_;  // remaining floats
};

}  // namespace strobe::solve
