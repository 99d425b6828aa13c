// A matrix [rows][keys] of one head in the workspace, such as scores or probabilities. Values are rounded to the
// problem's type. The matrix stores them in that type or in fp32; callers read and write fp32.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/standard/rows.h"
#include "device/host/blas.h"

namespace strobe::standard::cpu {

class ScoreMatrix {
 public:
  ScoreMatrix(char* data, DType stored, DType values, std::int64_t rows, std::int64_t keys)
      : data_(data), stored_(stored), values_(values), rows_(rows), keys_(keys) {}

  // Returns memory to write row i and following rows as fp32: the matrix itself if it is fp32, else `buffer`. The
  // caller must then store() each row.
  float* open(std::int64_t i, float* buffer) const { return is_fp32() ? row(i) : buffer; }

  // Rounds row i, which begins at `from`, and writes it to the matrix; with lo and hi, only columns [lo, hi). If the
  // matrix is fp32, `from` must be the result of open().
  void store(std::int64_t i, float* from, std::int64_t lo, std::int64_t hi) const {
    if (is_fp32()) return round_row(values_, from + lo, hi - lo);
    narrow_row(stored_, from + lo, hi - lo, at(i, lo));
  }
  void store(std::int64_t i, float* from) const { store(i, from, 0, keys_); }

  // Returns row i: in place if the matrix is fp32, else converted in `buffer`.
  const float* read(std::int64_t i, float* buffer) const {
    if (is_fp32()) return row(i);
    widen_row(stored_, at(i, 0), 1, keys_, buffer);
    return buffer;
  }

  // Converts columns [lo, hi) of row i to fp32. `to` may be the same columns in the matrix.
  void copy(std::int64_t i, std::int64_t lo, std::int64_t hi, float* to) const {
    if (is_fp32() && to == row(i) + lo) return;
    widen_row(stored_, at(i, lo), 1, hi - lo, to);
  }

  // Return `count` rows or columns as the operand of a GEMM: in place if the matrix is fp32, else converted in `strip`.
  blas::Matrix some_rows(std::int64_t first, std::int64_t count, float* strip) const {
    if (is_fp32()) return blas::matrix(row(first), count, keys_);
    widen_row(stored_, at(first, 0), 1, count * keys_, strip);
    return blas::matrix(strip, count, keys_);
  }
  blas::Matrix some_columns(std::int64_t first, std::int64_t count, float* strip) const {
    if (is_fp32()) return {row(0) + first, rows_, count, keys_};
    for (std::int64_t i = 0; i < rows_; ++i) copy(i, first, first + count, strip + i * count);
    return blas::matrix(strip, rows_, count);
  }

 private:
  bool is_fp32() const { return stored_ == DType::fp32; }
  char* at(std::int64_t i, std::int64_t j) const {
    return data_ + (i * keys_ + j) * static_cast<std::int64_t>(size_of(stored_));
  }
  float* row(std::int64_t i) const { return reinterpret_cast<float*>(data_) + i * keys_; }

  char* data_;
  DType stored_, values_;
  std::int64_t rows_, keys_;
};

}  // namespace strobe::standard::cpu
