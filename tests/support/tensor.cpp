// Implements the memory of test tensors, with canaries.
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
constexpr std::int64_t kFront = 256;  // bytes of the guard before the data
#ifdef STROBE_TEST_ADDRESS_SANITIZER
constexpr std::int64_t kBack = 0;
#else
constexpr std::int64_t kBack = 512;
#endif

// The canary and the poison of unwritten elements are both NaN, but differ so that the two are not confused.
std::uint32_t canary_of(DType dtype) {
  return dtype == DType::fp32 ? 0x7fdeadbeu : dtype == DType::fp16 ? 0x7eadu : 0x7fdeu;
}
std::uint32_t poison_of(DType dtype) {
  return dtype == DType::fp32 ? 0x7fc0ffeeu : dtype == DType::fp16 ? 0x7e0fu : 0x7fcfu;
}

// Fills memory with copies of an element of `size` bytes. Each iteration doubles the filled part, which is fast.
void fill(char* at, std::int64_t bytes, std::uint32_t bits, std::int64_t size) {
  if (bytes == 0) return;
  std::memcpy(at, &bits, static_cast<std::size_t>(size));
  for (std::int64_t done = size; done < bytes; done *= 2) {
    std::memcpy(at + done, at, static_cast<std::size_t>(std::min(done, bytes - done)));
  }
}

// Returns true if memory consists of copies of this element of `size` bytes.
bool filled(const char* at, std::int64_t bytes, std::uint32_t bits, std::int64_t size) {
  return bytes == 0 || (std::memcmp(at, &bits, static_cast<std::size_t>(size)) == 0 &&
                        std::memcmp(at, at + size, static_cast<std::size_t>(bytes - size)) == 0);
}

}  // namespace

GuardedBuffer::GuardedBuffer(DType dtype, std::int64_t count, std::int64_t misalign) : dtype_(dtype), count_(count) {
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t reserve = kFront + kAlign + (misalign + count) * size;
  // The vector aligns its memory to 16 bytes only, so the offset to the next multiple of 64 depends on the address.
  bytes_.reserve(static_cast<std::size_t>(reserve + kBack));
  const auto start = reinterpret_cast<std::uintptr_t>(bytes_.data());
  const std::int64_t to_line = static_cast<std::int64_t>((kAlign - start % kAlign) % kAlign);
#ifdef STROBE_TEST_ADDRESS_SANITIZER
  // Enlarges the front guard so that the data end exactly where the allocation ends.
  const std::int64_t front = reserve - count * size;
  (void)to_line;
#else
  const std::int64_t front = to_line + kFront + misalign * size;
#endif
  bytes_.resize(static_cast<std::size_t>(front + count * size + kBack));
  first_ = bytes_.data() + front;
}

void GuardedBuffer::own(const View& view) {
  if (count_of(view.shape) == 0) return;
  const auto [batch, heads, rows, d] = view.shape;
  const auto& stride = view.stride;
  const auto size = static_cast<std::int64_t>(size_of(dtype_));
  const std::int64_t first = (static_cast<char*>(view.data) - first_) / size;
  const std::int64_t width = 1 + (d - 1) * stride[3];  // elements that a row spans; the last stride is 1 or 0
  for_each({batch, heads, rows, 1}, [&](auto b, auto h, auto s, auto) {
    const std::int64_t begin = first + b * stride[0] + h * stride[1] + s * stride[2];
    if (!owned_.empty() && owned_.back().end == begin) {
      owned_.back().end += width;
    } else {
      owned_.push_back({begin, begin + width});
    }
  });
  std::sort(owned_.begin(), owned_.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  std::size_t joined = 0;  // index of the last merged span, which later spans may extend
  for (const Span& span : owned_) {
    if (span.begin <= owned_[joined].end) {
      owned_[joined].end = std::max(owned_[joined].end, span.end);
    } else {
      owned_[++joined] = span;
    }
  }
  owned_.resize(joined + 1);
}

// Calls visit(begin, end) for each range of elements that is not owned, including the guards. The first range begins
// below index 0; the last one ends past the last element.
template <class Visit>
void GuardedBuffer::for_each_gap(Visit&& visit) const {
  const auto size = static_cast<std::int64_t>(size_of(dtype_));
  std::int64_t begin = (bytes_.data() - first_) / size;
  for (const Span& span : owned_) {
    visit(begin, span.begin);
    begin = span.end;
  }
  visit(begin, (bytes_.data() + bytes_.size() - first_) / size);
}

void GuardedBuffer::poison() {
  const auto size = static_cast<std::int64_t>(size_of(dtype_));
  const auto set = [&](std::int64_t begin, std::int64_t end, std::uint32_t bits) {
    fill(first_ + begin * size, (end - begin) * size, bits, size);
  };
  for_each_gap([&](auto begin, auto end) { set(begin, end, canary_of(dtype_)); });
  for (const Span& span : owned_) set(span.begin, span.end, poison_of(dtype_));
}

std::string GuardedBuffer::stray_write() const {
  const auto size = static_cast<std::int64_t>(size_of(dtype_));
  const auto untouched = [&](std::int64_t begin, std::int64_t end) {
    return filled(first_ + begin * size, (end - begin) * size, canary_of(dtype_), size);
  };
  std::string text;
  for_each_gap([&](std::int64_t begin, std::int64_t end) {
    if (!text.empty() || untouched(begin, end)) return;
    while (untouched(begin, begin + 1)) ++begin;
    text = fmt::format("memory outside the tensor was written: element {} of {}", begin, count_);
  });
  return text;
}

std::string GuardedBuffer::changed() const {
  if (memory_.empty() || std::memcmp(memory_.data(), bytes_.data(), memory_.size()) == 0) return {};
  const auto was = std::mismatch(memory_.begin(), memory_.end(), bytes_.begin()).first;
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
  std::vector<double> values(static_cast<std::size_t>(count_of(view.shape)));
  const auto [batch, heads, rows, d] = view.shape;
  double* to = values.data();
  for_each({batch, heads, rows, 1}, [&, d = d](auto b, auto h, auto s, auto) {
    std::int64_t from = index(b, h, s, 0);
    for (std::int64_t c = 0; c < d; ++c, from += view.stride[3]) *to++ = load_element(view.data, view.dtype, from);
  });
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
    case Layout::padded: {  // gaps of odd sizes after each row, head and batch, so rows are not aligned
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
  tensor.buffer->own(tensor.view);
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
    buffer->own(tensor.view);
    tensors.push_back(tensor);
    first += h;
  }
  buffer->poison();
  return tensors;
}

}  // namespace strobe::test
