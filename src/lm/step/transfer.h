// Transfer holds the data that a step sends to the device (tokens, targets, arguments of the update) and receives
// (losses, norm). On the CPU both sides are the same memory. On a GPU there is one copy per direction, from and to
// pinned memory, so that the copies can be part of a graph.
#pragma once

#include <cstdint>
#include <optional>

#include "lm/state/memory.h"
#include "ops/optimizer.h"

namespace strobe::lm {

class Transfer {
 public:
  Transfer(const GpuStream* stream, std::int64_t tokens)
      : stream_(stream), tokens_(static_cast<std::size_t>(tokens)), placed_(stream, bytes(), kTransferTag) {
    if (stream) pinned_.emplace(bytes());
    *host().update() = {};
  }

  static std::size_t bytes_for(std::int64_t tokens) {
    const auto count = static_cast<std::size_t>(tokens);
    return rounded(tokens_at(count) + 2 * count * sizeof(std::int32_t));
  }

  // The host's or the device's memory: [losses | update | tokens | targets].
  class Side {
   public:
    Side(char* data, std::size_t tokens) : data_(data), tokens_(tokens) {}
    float* losses() const { return reinterpret_cast<float*>(data_); }
    ops::Update* update() const { return reinterpret_cast<ops::Update*>(data_ + update_at(tokens_)); }
    std::int32_t* tokens() const { return reinterpret_cast<std::int32_t*>(data_ + tokens_at(tokens_)); }
    std::int32_t* targets() const { return tokens() + tokens_; }

   private:
    char* data_;
    std::size_t tokens_;
  };
  Side host() const { return {stream_ ? pinned_->as<char>() : placed_.as<char>(), tokens_}; }
  Side device() const { return {placed_.as<char>(), tokens_}; }

  std::size_t sent_bytes() const { return bytes() - update_at(tokens_); }
  std::size_t received_bytes() const { return tokens_at(tokens_); }
  void send() const {
    const std::size_t first = update_at(tokens_);
    if (stream_) stream_->copy(placed_.as<char>() + first, pinned_->as<char>() + first, sent_bytes());
  }
  void receive() const {
    if (stream_) stream_->copy(pinned_->as<char>(), placed_.data(), received_bytes());
  }

 private:
  static constexpr std::size_t rounded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
  static constexpr std::size_t update_at(std::size_t tokens) { return rounded(tokens * sizeof(float)); }
  static constexpr std::size_t tokens_at(std::size_t tokens) {
    return update_at(tokens) + rounded(sizeof(ops::Update));
  }
  std::size_t bytes() const { return bytes_for(static_cast<std::int64_t>(tokens_)); }

  const GpuStream* stream_;
  std::size_t tokens_;
  Memory placed_;
  std::optional<PinnedBuffer> pinned_;
};

}  // namespace strobe::lm
