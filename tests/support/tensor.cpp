// Canaried memory of test tensors.
#include "support/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/half.h"

#if defined(__SANITIZE_ADDRESS__)
#define STROBE_TEST_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STROBE_TEST_ADDRESS_SANITIZER 1
#endif
#endif

namespace strobe::test {
namespace {

constexpr std::int64_t kAlign = 64;
constexpr std::int64_t kFront = 256;  // bytes
#ifdef STROBE_TEST_ADDRESS_SANITIZER
constexpr std::int64_t kBack = 0;
#else
constexpr std::int64_t kBack = 512;
#endif

// Both are NaN in their type; they differ so that a canary is not mistaken for an element that nobody wrote.
std::uint32_t canary_of(DType dtype) {
  return dtype == DType::fp32 ? 0x7fdeadbeu : dtype == DType::fp16 ? 0x7eadu : 0x7fdeu;
}
std::uint32_t poison_of(DType dtype) {
  return dtype == DType::fp32 ? 0x7fc0ffeeu : dtype == DType::fp16 ? 0x7e0fu : 0x7fcfu;
}

void put(char* at, DType dtype, std::uint32_t bits) { std::memcpy(at, &bits, size_of(dtype)); }

}  // namespace

GuardedBuffer::GuardedBuffer(DType dtype, std::int64_t count, std::int64_t misalign) : dtype_(dtype), count_(count) {
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t reserve = kFront + kAlign + (misalign + count) * size;
  // The start of a vector's memory is a multiple of 16 only, so how much to reserve depends on where it lies.
  bytes_.reserve(static_cast<std::size_t>(reserve + kBack));
  const auto start = reinterpret_cast<std::uintptr_t>(bytes_.data());
  const std::int64_t to_line = static_cast<std::int64_t>((kAlign - start % kAlign) % kAlign);
#ifdef STROBE_TEST_ADDRESS_SANITIZER
  // Exact end: fill up from the front so that the data end where the allocation ends.
  const std::int64_t front = reserve - count * size;
  (void)to_line;
#else
  const std::int64_t front = to_line + kFront + misalign * size;
#endif
  bytes_.resize(static_cast<std::size_t>(front + count * size + kBack));
  first_ = bytes_.data() + front;
  owned_.assign(static_cast<std::size_t>(count), false);
  poison();
}

void GuardedBuffer::poison() {
  const auto size = static_cast<std::int64_t>(size_of(dtype_));
  const std::int64_t phase = (first_ - bytes_.data()) % size;  // the canary is in step with the elements
  for (std::int64_t at = phase; at + size <= static_cast<std::int64_t>(bytes_.size()); at += size) {
    put(bytes_.data() + at, dtype_, canary_of(dtype_));
  }
  for (std::int64_t i = 0; i < count_; ++i) {
    if (owned_[static_cast<std::size_t>(i)]) put(first_ + i * size, dtype_, poison_of(dtype_));
  }
}

std::string GuardedBuffer::stray_write() const {
  const auto size = static_cast<std::int64_t>(size_of(dtype_));
  const std::int64_t phase = (first_ - bytes_.data()) % size;
  const std::uint32_t canary = canary_of(dtype_);
  for (std::int64_t at = phase; at + size <= static_cast<std::int64_t>(bytes_.size()); at += size) {
    const std::int64_t element = (at - (first_ - bytes_.data())) / size;
    const bool inside = bytes_.data() + at >= first_ && element < count_;
    if (inside && owned_[static_cast<std::size_t>(element)]) continue;
    if (std::memcmp(bytes_.data() + at, &canary, static_cast<std::size_t>(size)) != 0) {
      return fmt::format("memory outside of the tensor was written: element {} of {}", element, count_);
    }
  }
  return {};
}

std::string GuardedBuffer::changed() const {
  const auto [was, is] = std::mismatch(memory_.begin(), memory_.end(), bytes_.begin());
  if (was == memory_.end()) return {};
  const std::int64_t byte = (was - memory_.begin()) - (first_ - bytes_.data());
  return fmt::format("an input was written: element {} of {}", byte / static_cast<std::int64_t>(size_of(dtype_)),
                     count_);
}

float Tensor::at(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t c) const {
  return load_element(view.data, view.dtype, index(b, h, s, c));
}

void Tensor::set(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t c, float value) {
  store_element(view.data, view.dtype, index(b, h, s, c), value);
}

std::vector<double> Tensor::gather() const {
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(count_of(view.shape)));
  for_each(view.shape, [&](auto b, auto h, auto s, auto c) { values.push_back(at(b, h, s, c)); });
  return values;
}

const char* name_of(Layout layout) {
  switch (layout) {
    case Layout::bhsd: return "bhsd";
    case Layout::bshd: return "bshd";
    case Layout::padded: return "padded";
    case Layout::expanded_batch: return "expanded_batch";
    case Layout::expanded_heads: return "expanded_heads";
    case Layout::expanded_rows: return "expanded_rows";
    case Layout::expanded_last: return "expanded_last";
    case Layout::expanded_all: return "expanded_all";
  }
  return "unknown layout";
}

Tensor make_tensor(const TensorOptions& options) {
  const auto [batch, heads, rows, d] = options.shape;
  std::array<std::int64_t, 4> stride = {heads * rows * d, rows * d, d, 1};
  switch (options.layout) {
    case Layout::bhsd: break;
    case Layout::bshd: stride = {rows * heads * d, d, heads * d, 1}; break;
    case Layout::padded: {  // gaps after each row, each head and each batch; odd, so that rows are not aligned
      const std::int64_t row = d + 3;
      const std::int64_t head = rows * row + 5;
      stride = {heads * head + 7, head, row, 1};
      break;
    }
    case Layout::expanded_batch: stride = {0, rows * d, d, 1}; break;
    case Layout::expanded_heads: stride = {rows * d, 0, d, 1}; break;
    case Layout::expanded_rows: stride = {heads * d, d, 0, 1}; break;
    case Layout::expanded_last: stride = {heads * rows, rows, 1, 0}; break;
    case Layout::expanded_all: stride = {0, 0, 0, 0}; break;
  }
  std::int64_t last = 0;  // index of the last element
  for (int i = 0; i < 4; ++i) last += std::max<std::int64_t>(options.shape[i] - 1, 0) * stride[i];
  const std::int64_t count = count_of(options.shape) == 0 ? 0 : last + 1;
  Tensor tensor;
  tensor.buffer = std::make_shared<GuardedBuffer>(options.dtype, count, options.misalign);
  tensor.view = {tensor.buffer->data(), options.dtype, options.shape, stride};
  for_each(options.shape, [&](auto b, auto h, auto s, auto c) { tensor.buffer->own(tensor.index(b, h, s, c)); });
  tensor.buffer->poison();
  return tensor;
}

std::vector<Tensor> make_fused(DType dtype, const Shape& shape, const std::vector<std::int64_t>& heads) {
  const auto [batch, unused, rows, d] = shape;
  (void)unused;
  std::int64_t all = 0;
  for (const std::int64_t h : heads) all += h;
  auto buffer = std::make_shared<GuardedBuffer>(dtype, batch * rows * all * d, 0);
  std::vector<Tensor> tensors;
  std::int64_t first = 0;
  for (const std::int64_t h : heads) {
    char* data = static_cast<char*>(buffer->data()) + first * d * static_cast<std::int64_t>(size_of(dtype));
    const Shape part = {batch, h, rows, d};
    Tensor tensor{{data, dtype, part, {rows * all * d, d, all * d, 1}}, buffer};
    for_each(part, [&](auto b, auto hh, auto s, auto c) { buffer->own(first * d + tensor.index(b, hh, s, c)); });
    tensors.push_back(tensor);
    first += h;
  }
  buffer->poison();
  return tensors;
}

}  // namespace strobe::test
