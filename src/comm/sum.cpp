// Plain loops, compiled with -O3 (CMakeLists.txt) so that they become vector code.
#include "comm/sum.h"

namespace strobe::comm {
namespace {

template <class T>
void add_all(const void* a, const void* b, void* out, std::int64_t count) {
  const T *left = static_cast<const T*>(a), *right = static_cast<const T*>(b);
  T* sum = static_cast<T*>(out);
  for (std::int64_t i = 0; i < count; ++i) sum[i] = left[i] + right[i];
}

}  // namespace

void add(const void* a, const void* b, void* out, std::int64_t count, Element element) {
  switch (element) {
    case Element::fp32: return add_all<float>(a, b, out, count);
    case Element::fp64: return add_all<double>(a, b, out, count);
    case Element::int64: return add_all<std::int64_t>(a, b, out, count);
    case Element::byte: return;
  }
}

}  // namespace strobe::comm
