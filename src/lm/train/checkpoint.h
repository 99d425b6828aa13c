// A checkpoint is one safetensors file. It contains the parameters under their names, and AdamW's moments as
// adamw.mean.<name> and adamw.variance.<name>. Two CRC-32 values follow: `weights_checksum` is that of the header and
// the parameters, `checksum` that of all bytes before it. The metadata contain step, data position, seed, shape and
// options. Checkpoints of the same state are bitwise equal.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/mapped_file.h"
#include "lm/data/safetensors.h"
#include "lm/model.h"
#include "lm/train/progress.h"
#include "lm/train/settings.h"
#include "strobe/error.h"

namespace strobe::lm {

// Returns the size of a checkpoint without its header, in bytes.
std::size_t checkpoint_bytes(const ModelShape& shape);

// Callback that reads or writes elements [first, first + chunk.size()) of a state.
using StateChunk = std::function<void(State which, std::int64_t first, std::span<float> chunk)>;

// Calls `use` for chunks of the states of a checkpoint, in file order. The buffer has at most 4 MiB, so no second full
// copy of the states is needed.
void for_each_chunk(const ModelShape& shape, const StateChunk& use);

// Thrown if training diverges: a loss, a gradient or a parameter is not finite.
class DivergedError : public Error {
 public:
  explicit DivergedError(const std::string& what) : Error(ErrorCode::runtime, what) {}
};

// Writes a checkpoint atomically: the file appears whole or not at all (core/atomic_file.h). Throws Error(runtime) if a
// write fails. Throws DivergedError with the tensor's name, after reading all chunks, if Checkpoint would reject the
// state.
void write_checkpoint(const std::string& path, const StateChunk& read, const Settings& settings,
                      const Progress& progress);

// With `weights`, the moments are neither read nor checked. A checkpoint of an older version, without weights_checksum,
// is always checked completely.
enum class CheckpointParts { all, weights };

// A validated checkpoint, mapped into memory.
class Checkpoint {
 public:
  // Throws Error(invalid_argument) with one line and the path if the file cannot be read or is not a checkpoint. Also
  // throws if the checksum or the tensors do not match, a setting is out of range, a value is not finite, or a variance
  // of AdamW is negative.
  explicit Checkpoint(const std::string& path, CheckpointParts parts = CheckpointParts::all);

  const Settings& settings() const { return settings_; }
  const Progress& progress() const { return progress_; }
  // Returns parameter_count(shape) floats in the order of parameter_table(shape), in the file's mapping. With
  // CheckpointParts::weights only State::values is valid.
  std::span<const float> state(State which) const;

 private:
  MappedFile file_;
  Settings settings_;
  Progress progress_;
  std::size_t data_begin_ = 0;
};

}  // namespace strobe::lm
