// Checks a tensor view for validate.cpp. Sizes and strides are untrusted, so every multiplication detects overflow.
#include "attention/checks.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "core/fail.h"

namespace strobe {

namespace {

constexpr std::array<const char*, 4> kDimensions{"batch", "heads", "sequence", "last dimension"};

// Largest span of a view in bytes. No user address space is larger. Beyond this limit an access might not fault,
// because Arm can ignore the top bits of an address.
constexpr std::int64_t kMaxSpan = std::int64_t{1} << 56;

// Offsets of a view's elements from its pointer, in bytes: [low, high).
struct Span {
  std::int64_t low, high;
};

template <class View>
Span span_of(const View& view, std::int64_t bytes, const char* name) {
  Span span{0, 1};
  bool fits = true;
  for (std::size_t i = 0; i < 4; ++i) {
    std::int64_t reach = 0;
    fits = fits && !__builtin_mul_overflow(view.shape[i] - 1, view.shape[i] == 1 ? 0 : view.stride[i], &reach);
    std::int64_t& end = reach < 0 ? span.low : span.high;
    fits = fits && !__builtin_add_overflow(end, reach, &end);
  }
  std::int64_t total = 0;
  fits = fits && !__builtin_mul_overflow(span.low, bytes, &span.low);
  fits = fits && !__builtin_mul_overflow(span.high, bytes, &span.high);
  fits = fits && !__builtin_sub_overflow(span.high, span.low, &total);
  if (!fits || total > kMaxSpan) {
    fail(ErrorCode::invalid_argument, "attention: {} of shape {} with strides {} spans more bytes than 2^56", name,
         text_of(view.shape), text_of(view.stride));
  }
  return span;
}

// Checks that a view's pointer is not null (if required) and that its elements are within the address space.
template <class View>
void check_address(const View& view, const Span& span, const ViewRule& rule) {
  if (!view.data) {
    if (rule.pointers == Pointers::ignored) return;
    fail(ErrorCode::invalid_argument, "attention: {} is null but has shape {}", rule.name, text_of(view.shape));
  }
  const auto address = reinterpret_cast<std::uintptr_t>(view.data);
  const auto above = static_cast<std::uintptr_t>(span.high);
  const auto below = static_cast<std::uintptr_t>(-span.low);
  if (address < below || address > std::numeric_limits<std::uintptr_t>::max() - above) {
    fail(ErrorCode::invalid_argument, "attention: {} at {} of shape {} with strides {} leaves the address space",
         rule.name, view.data, text_of(view.shape), text_of(view.stride));
  }
}

void check_pointer(const ConstView& view, const Span& span, const ViewRule& rule) {
  const std::size_t bytes = size_of(view.dtype);
  if (reinterpret_cast<std::uintptr_t>(view.data) % bytes != 0) {
    fail(ErrorCode::invalid_argument, "attention: {} at {} is not aligned to its element, {} bytes of {}", rule.name,
         view.data, bytes, name_of(view.dtype));
  }
  check_address(view, span, rule);
}

// Throws unless a sufficient condition for distinct addresses holds: with dimensions sorted by stride, each stride
// exceeds the span of all dimensions with smaller strides. Transposed, sliced and padded tensors satisfy it. span_of()
// has already excluded overflow.
void check_distinct(const ConstView& view, const char* name) {
  std::array<std::size_t, 4> order{0, 1, 2, 3};
  const auto step = [&](std::size_t i) { return view.shape[i] == 1 ? 0 : std::abs(view.stride[i]); };
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return step(a) < step(b); });
  std::int64_t reach = 0;
  for (const std::size_t i : order) {
    if (view.shape[i] == 1) continue;
    if (step(i) <= reach) {
      fail(ErrorCode::invalid_argument,
           "attention: {} of shape {} with strides {} has elements that overlap (the {} stride {} is less than the {} "
           "elements that it must step over); elements of an output must not overlap",
           name, text_of(view.shape), text_of(view.stride), kDimensions[i], view.stride[i], reach + 1);
    }
    reach += (view.shape[i] - 1) * step(i);
  }
}

}  // namespace

std::string text_of(const std::array<std::int64_t, 4>& values) {
  return fmt::format("[{}, {}, {}, {}]", values[0], values[1], values[2], values[3]);
}

void check_size(const char* what, std::int64_t size) {
  if (size > kMaxSize) {
    fail(ErrorCode::invalid_argument, "attention: {} is {}; the most is {}", what, size, kMaxSize);
  }
}

void check_sizes(const ConstView& view, const char* name) {
  if (view.dtype != DType::fp32 && view.dtype != DType::fp16 && view.dtype != DType::bf16) {
    fail(ErrorCode::invalid_argument, "attention: {} has the unknown dtype {}; valid are 0 (fp32), 1 (fp16), 2 (bf16)",
         name, static_cast<int>(view.dtype));
  }
  check_shape(view.shape, name);
}

void check_shape(const std::array<std::int64_t, 4>& shape, const char* name) {
  std::int64_t elements = 1;
  bool fits = true;
  for (std::size_t i = 0; i < 4; ++i) {
    if (shape[i] < 0) {
      fail(ErrorCode::invalid_argument, "attention: {} has {} {} in its shape {}; sizes must be at least 0", name,
           kDimensions[i], shape[i], text_of(shape));
    }
    // A dimension of size 0 counts as 1, because the product of the other sizes must not overflow either.
    fits = fits && !__builtin_mul_overflow(elements, std::max<std::int64_t>(1, shape[i]), &elements);
  }
  if (!fits || elements > kMaxElements) {
    fail(ErrorCode::invalid_argument, "attention: {} of shape {} has more elements than 2^50", name, text_of(shape));
  }
}

std::array<std::int64_t, 4> check_memory(const ConstView& view, const ViewRule& rule) {
  if (!has_elements(view.shape)) return {0, 0, 0, 1};
  const std::int64_t last = view.stride[3];
  if (view.shape[3] > 1 && last != 1 && !(last == 0 && rule.use == Use::expanded_input)) {
    fail(ErrorCode::invalid_argument, "attention: {} has stride {} in its last dimension (strides {}); it must be {}",
         rule.name, last, text_of(view.stride), rule.use == Use::expanded_input ? "1 or 0" : "1");
  }
  const Span span = span_of(view, static_cast<std::int64_t>(size_of(view.dtype)), rule.name);
  if (rule.use == Use::output) check_distinct(view, rule.name);
  check_pointer(view, span, rule);

  std::array<std::int64_t, 4> stride = view.stride;
  for (std::size_t i = 0; i < 3; ++i) {
    if (view.shape[i] == 1) stride[i] = view.shape[3];
  }
  if (view.shape[3] == 1) stride[3] = 1;
  return stride;
}

std::array<std::int64_t, 4> check_mask_memory(const MaskView& mask, Pointers pointers) {
  if (!has_elements(mask.shape)) return {0, 0, 0, 0};
  check_address(mask, span_of(mask, 1, "mask"), {"mask", Use::input, pointers});
  std::array<std::int64_t, 4> stride = mask.stride;
  for (std::size_t i = 0; i < 4; ++i) {
    if (mask.shape[i] == 1) stride[i] = 0;
  }
  return stride;
}

void check_array(const PlainArray& array) {
  if (array.count == 0) return;
  if (!array.data) {
    fail(ErrorCode::invalid_argument, "attention: {} is null but has {} elements", array.name, array.count);
  }
  if (reinterpret_cast<std::uintptr_t>(array.data) % static_cast<std::uintptr_t>(array.bytes) != 0) {
    fail(ErrorCode::invalid_argument, "attention: {} at {} is not aligned to its element, {} bytes", array.name,
         array.data, array.bytes);
  }
}

}  // namespace strobe
