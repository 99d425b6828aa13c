// Implements names, bus factors and host sums of collectives. CMakeLists.txt compiles this file with -O3, so the
// compiler vectorizes the plain loops.
#include "comm/collective.h"

#include <fmt/format.h>
#include <algorithm>

namespace strobe::comm {

const char* name_of(Element element) {
  switch (element) {
    case Element::byte: return "bytes";
    case Element::fp32: return "fp32";
    case Element::fp64: return "fp64";
    case Element::int64: return "int64";
  }
  return "unknown";
}

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::barrier: return "barrier";
    case Kind::broadcast: return "broadcast";
    case Kind::all_reduce: return "all-reduce";
    case Kind::reduce_scatter: return "reduce-scatter";
    case Kind::all_gather: return "all-gather";
  }
  return "unknown";
}

double bus_factor(Kind kind, std::int64_t ranks) {
  const double others = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  switch (kind) {
    case Kind::all_reduce: return 2 * others;
    case Kind::reduce_scatter:
    case Kind::all_gather: return others;
    case Kind::broadcast:
    case Kind::barrier: return 1;
  }
  return 1;
}

std::int64_t Collective::total() const { return std::max(in.count, out.count); }

std::string Collective::text() const {
  if (kind == Kind::barrier) return name_of(kind);
  return fmt::format("{} of {} {}", name_of(kind), total(), name_of(out.element));
}

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
