// Writes, maps and validates checkpoints.
#include "lm/train/checkpoint.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <vector>

#include "core/atomic_file.h"
#include "core/crc32.h"
#include "core/fail.h"
#include "core/printable.h"

namespace strobe::lm {

namespace {

constexpr const char* kFormat = "strobe lm checkpoint 1";
constexpr const char* kGenerator = "philox4x32-10";
constexpr std::array<State, 3> kStates{State::values, State::mean, State::variance};
constexpr const char *kWeightsChecksum = "weights_checksum", *kChecksum = "checksum";
constexpr std::size_t kChecksumBytes = 4;
constexpr std::int64_t kChunk = 1 << 20;  // floats per call of a StateChunk

const char* prefix_of(State which) {
  return which == State::values ? "" : which == State::mean ? "adamw.mean." : "adamw.variance.";
}

enum class Checksums { whole, weights_and_whole };  // files of older versions have only `whole`

// Returns all tensors of a checkpoint in order, without metadata.
SafeTensors layout_of(const ModelShape& shape, Checksums checksums) {
  SafeTensors layout;
  const std::vector<Parameter> table = parameter_table(shape);
  for (const State which : kStates) {
    for (const Parameter& parameter : table) {
      append(layout, prefix_of(which) + parameter.name, "F32", {parameter.shape[0], parameter.shape[1]});
    }
  }
  if (checksums == Checksums::weights_and_whole) append(layout, kWeightsChecksum, "U8", {kChecksumBytes});
  append(layout, kChecksum, "U8", {kChecksumBytes});
  return layout;
}

std::string checksum_bytes(std::uint32_t checksum) {
  std::string bytes(kChecksumBytes, '\0');
  std::memcpy(bytes.data(), &checksum, kChecksumBytes);
  return bytes;
}

std::string_view bytes_of(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

const std::string& metadata(const SafeTensors& file, const char* key) {
  const std::string* value = file.find_metadata(key);
  if (!value) fail(ErrorCode::invalid_argument, "its metadata has no {}", key);
  return *value;
}

std::int64_t whole(const SafeTensors& file, const char* key) {
  const std::string& text = metadata(file, key);
  std::int64_t value = -1;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) {
    fail(ErrorCode::invalid_argument, "its metadata's {} is {}; valid: a whole number", key, printable_value(text));
  }
  return value;
}

Progress progress_of(const SafeTensors& file, const Settings& settings) {
  const Progress progress{.step = whole(file, "step"),
                          .position = whole(file, "data_position"),
                          .loss_scale = loss_scale_from(Json::parse(metadata(file, "loss_scale")))};
  check(progress, settings);
  return progress;
}

// Describes the first value that is not finite, or is negative in a variance; returns "" if there is none. `first` is
// the index of values[0] in the state.
std::string bad_value(const ModelShape& shape, State which, std::int64_t first, std::span<const float> values) {
  const float least = which == State::variance ? 0 : -std::numeric_limits<float>::max();
  const auto is_bad = [&](float value) { return !(value >= least && value <= std::numeric_limits<float>::max()); };
  const auto found = std::find_if(values.begin(), values.end(), is_bad);
  if (found == values.end()) return "";
  const std::int64_t element_index = first + (found - values.begin());
  const std::vector<Parameter> table = parameter_table(shape);
  const auto holder = std::find_if(table.begin(), table.end(),
                                   [&](const Parameter& one) { return element_index < one.first + one.count(); });
  return fmt::format("{}{}: element {} is {}; valid: finite{}", prefix_of(which), holder->name,
                     element_index - holder->first, *found, which == State::variance ? ", 0 or more" : "");
}

Checksums checksums_of(const SafeTensors& file) {
  const auto is_weights_checksum = [](const StoredTensor& tensor) { return tensor.name == kWeightsChecksum; };
  return std::any_of(file.tensors.begin(), file.tensors.end(), is_weights_checksum) ? Checksums::weights_and_whole
                                                                                    : Checksums::whole;
}

// Throws unless the file has the tensors of this shape. Checks the byte count first, because a table for a forged shape
// could exhaust memory.
void check_tensors(const SafeTensors& file, const ModelShape& shape, Checksums checksums) {
  const std::size_t needed = checkpoint_bytes(shape) - (checksums == Checksums::whole ? kChecksumBytes : 0);
  if (file.data_bytes() != needed) {
    fail(ErrorCode::invalid_argument, "its tensors have {} bytes; its shape needs {}", file.data_bytes(), needed);
  }
  const SafeTensors wanted = layout_of(shape, checksums);
  if (file.tensors.size() != wanted.tensors.size()) {
    fail(ErrorCode::invalid_argument, "has {} tensors; its shape needs {}", file.tensors.size(), wanted.tensors.size());
  }
  for (std::size_t i = 0; i < wanted.tensors.size(); ++i) {
    const StoredTensor &one = file.tensors[i], &other = wanted.tensors[i];
    if (one == other) continue;
    fail(ErrorCode::invalid_argument, "has the tensor {}, {} [{}], where {}, {} [{}] belongs",
         printable_value(one.name), one.dtype, fmt::join(one.shape, ", "), other.name, other.dtype,
         fmt::join(other.shape, ", "));
  }
}

// Throws unless the CRC-32 of `bytes` is the one at `stored`.
void check_checksum(std::string_view bytes, const char* stored) {
  std::uint32_t kept = 0;
  std::memcpy(&kept, stored, kChecksumBytes);
  const std::uint32_t found = crc32(bytes);
  if (found == kept) return;
  fail(ErrorCode::invalid_argument, "is corrupt: its bytes have the checksum {:08x}, but {:08x} was written", found,
       kept);
}

}  // namespace

std::size_t checkpoint_bytes(const ModelShape& shape) {
  return kStates.size() * sizeof(float) * static_cast<std::size_t>(parameter_count(shape)) + 2 * kChecksumBytes;
}

void for_each_chunk(const ModelShape& shape, const StateChunk& use) {
  const std::int64_t count = parameter_count(shape);
  std::vector<float> memory(static_cast<std::size_t>(std::min(count, kChunk)));
  for (const State which : kStates) {
    for (std::int64_t first = 0; first < count; first += kChunk) {
      use(which, first, std::span(memory).first(static_cast<std::size_t>(std::min(kChunk, count - first))));
    }
  }
}

void write_checkpoint(const std::string& path, const StateChunk& read, const Settings& settings,
                      const Progress& progress) {
  SafeTensors layout = layout_of(settings.shape, Checksums::weights_and_whole);
  layout.metadata = {{"format", kFormat},
                     {"step", std::to_string(progress.step)},
                     {"data_position", std::to_string(progress.position)},
                     {"generator", kGenerator},
                     {"loss_scale", to_json(progress.loss_scale).dump()},
                     {"settings", to_json(settings).dump()}};
  const std::string header = header_of(layout);
  AtomicFile file(path, "checkpoint", AtomicFile::Links::refuse);
  file.check_room(header.size() + layout.data_bytes());
  std::uint32_t checksum = crc32(header), weights_checksum = 0;
  file.write(header);
  std::string bad;  // reading continues after a bad value: `read` may be collective
  for_each_chunk(settings.shape, [&](State which, std::int64_t first, std::span<float> chunk) {
    read(which, first, chunk);
    if (bad.empty()) bad = bad_value(settings.shape, which, first, chunk);
    if (!bad.empty()) return;
    checksum = crc32(bytes_of(chunk), checksum);
    if (which == State::values) weights_checksum = checksum;
    file.write(bytes_of(chunk));
  });
  if (!bad.empty()) throw DivergedError(fmt::format("checkpoint {} is not written: {}", printable_value(path), bad));
  const std::string stored = checksum_bytes(weights_checksum);
  file.commit(stored + checksum_bytes(crc32(stored, checksum)));
}

Checkpoint::Checkpoint(const std::string& path, CheckpointParts parts)
    : file_(path, "checkpoint " + printable_value(path)) {
  const std::string shown = "checkpoint " + printable_value(path);
  const SafeTensors parsed = parse_safetensors(file_.text(), shown);
  try {
    const std::string* format = parsed.find_metadata("format");
    if (!format || *format != kFormat) {
      fail(ErrorCode::invalid_argument,
           "is not a checkpoint of strobe lm train: its metadata's format is {}; valid: {}",
           format ? printable_value(*format) : "missing", kFormat);
    }
    settings_ = settings_from(Json::parse(metadata(parsed, "settings")));
    progress_ = progress_of(parsed, settings_);
    const Checksums checksums = checksums_of(parsed);
    check_tensors(parsed, settings_.shape, checksums);
    if (parsed.data_begin % alignof(float) != 0) {
      fail(ErrorCode::invalid_argument, "its data begin at byte {}; valid: a multiple of {}", parsed.data_begin,
           alignof(float));
    }
    data_begin_ = parsed.data_begin;
    const std::string_view text = file_.text();
    const char* const end = text.data() + text.size();
    const bool weights_only = parts == CheckpointParts::weights && checksums == Checksums::weights_and_whole;
    if (weights_only) {
      check_checksum(text.substr(0, data_begin_ + state(State::values).size_bytes()), end - 2 * kChecksumBytes);
    } else {
      check_checksum(text.substr(0, text.size() - kChecksumBytes), end - kChecksumBytes);
    }
    for (const State which : kStates) {
      if (weights_only && which != State::values) continue;
      if (const std::string bad = bad_value(settings_.shape, which, 0, state(which)); !bad.empty()) {
        fail(ErrorCode::invalid_argument, "{}", bad);
      }
    }
  } catch (const Error& error) {
    fail(ErrorCode::invalid_argument, "{}: {}", shown, error.what());
  }
}

std::span<const float> Checkpoint::state(State which) const {
  const auto count = static_cast<std::size_t>(parameter_count(settings_.shape));
  const auto* floats = reinterpret_cast<const float*>(static_cast<const char*>(file_.data()) + data_begin_);
  return {floats + static_cast<std::size_t>(which) * count, count};
}

}  // namespace strobe::lm
