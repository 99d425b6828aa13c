// Derives choices from the bytes of a fuzzer's input. Bytes past the end read as zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>

namespace strobe::test {

class FuzzBytes {
 public:
  FuzzBytes(const std::uint8_t* data, std::size_t bytes) : left_(data, bytes) {}

  template <class T>
  T take() {
    T value{};
    const std::size_t count = left_.size() < sizeof(T) ? left_.size() : sizeof(T);
    if (count > 0) std::memcpy(&value, left_.data(), count);
    left_ = left_.subspan(count);
    return value;
  }

  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + take<std::uint8_t>() % (most - least + 1);
  }
  bool one_in(int count) { return take<std::uint8_t>() % count == 1; }

  template <class List>
  const auto& pick(const List& list) {
    return list[take<std::uint8_t>() % std::size(list)];
  }

 private:
  std::span<const std::uint8_t> left_;
};

}  // namespace strobe::test
