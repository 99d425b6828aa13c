// A training run on disk, one safetensors file: the parameters under their names, AdamW's averages as adamw.mean.<name>
// and adamw.variance.<name>, and a tensor `checksum`, the CRC-32 of all bytes before it. Step, place in the data, seed,
// shape and options stand in the metadata. The bytes depend on the state alone.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/json.h"
#include "core/mapped_file.h"
#include "lm/loss_scale.h"
#include "lm/model.h"
#include "lm/safetensors.h"
#include "lm/settings.h"

namespace strobe::lm {

// What training keeps beside the model. Random numbers come from counters (Philox, keyed by the seed), so that the seed
// and these positions are the whole state of the generator.
struct Progress {
  std::int64_t step = 0;      // steps taken
  std::int64_t position = 0;  // windows of the data that were seen, through all epochs
  LossScale loss_scale;       // fp16 alone changes it

  bool operator==(const Progress&) const = default;
};

Json to_json(const Progress& progress);
Progress progress_from(const Json& json);

// Bytes of a checkpoint but for its header.
std::size_t checkpoint_bytes(const ModelShape& shape);

// Reads or writes elements of a state from `first` on.
using StatePiece = std::function<void(State which, std::int64_t first, std::span<float> piece)>;

// The states of a checkpoint in its order, in pieces of a few MB, so that nobody holds a second copy of all of them.
// `use` is given memory to work in.
void for_each_piece(const ModelShape& shape, const StatePiece& use);

// The file appears whole or not at all (core/atomic_file.h). Throws Error(runtime) where the disk refuses.
void write_checkpoint(const std::string& path, const StatePiece& read, const Settings& settings,
                      const Progress& progress);

// A checkpoint that was read to its last byte and found whole.
class Checkpoint {
 public:
  // Throws Error(invalid_argument), one line with the path, for what cannot be read, is no safetensors file, is none of
  // ours, has tensors other than its shape says, or bytes other than were written.
  explicit Checkpoint(const std::string& path);

  const Settings& settings() const { return settings_; }
  const Progress& progress() const { return progress_; }
  // parameter_count(shape) floats in the order of parameter_table(shape), in the file's mapping.
  std::span<const float> state(State which) const;

 private:
  MappedFile file_;
  Settings settings_;
  Progress progress_;
  std::size_t data_begin_ = 0;
};

}  // namespace strobe::lm
