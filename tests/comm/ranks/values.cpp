// Scenario `values`: compares the results of every collective and element type with known sums of small integers, which
// every type represents exactly.
#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "comm/ranks/scenario.h"

namespace strobe::test {
namespace {

using comm::Communicator;
using comm::Share;

// Returns element i of a rank: 0 to 96.
template <class T>
T value_at(int rank, std::int64_t i) {
  return static_cast<T>((i * 7 + rank * 13) % 97);
}

template <class T>
T sum_at(int ranks, std::int64_t i) {
  T sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value_at<T>(rank, i);
  return sum;
}

template <class T>
std::vector<T> values_of(int rank, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = value_at<T>(rank, i);
  return values;
}

template <class T>
class Faults {
 public:
  Faults(const Communicator& communicator, std::int64_t total) : rank_(communicator.rank()), total_(total) {}

  template <class Expected>
  void compare(const char* what, const std::vector<T>& got, Expected expected) {
    for (std::size_t i = 0; i < got.size(); ++i) {
      const T wanted = expected(static_cast<std::int64_t>(i));
      if (got[i] == wanted) continue;
      std::fprintf(stderr, "rank %d: %s of %lld: element %zu is %g, not %g\n", rank_, what,
                   static_cast<long long>(total_), i, static_cast<double>(got[i]), static_cast<double>(wanted));
      ++count_;
      return;
    }
  }
  int count() const { return count_; }

 private:
  int rank_;
  std::int64_t total_;
  int count_ = 0;
};

template <class T>
int values_of_type(Communicator& communicator, std::int64_t total) {
  using comm::elements;
  const int rank = communicator.rank(), size = communicator.size();
  const Share share = communicator.share(total);
  const T poison = static_cast<T>(-1);
  Faults<T> faults(communicator, total);
  std::vector<T> own = values_of<T>(rank, total);
  const auto sum = [&](std::int64_t i) { return sum_at<T>(size, i); };

  std::vector<T> out(own.size(), poison);
  communicator.all_reduce(elements(std::span<T>(own)), elements(std::span<T>(out)));
  faults.compare("all-reduce", out, sum);
  faults.compare("all-reduce's input", own, [&](std::int64_t i) { return value_at<T>(rank, i); });
  communicator.all_reduce(elements(std::span<T>(own)));
  faults.compare("all-reduce in place", own, sum);

  own = values_of<T>(rank, total);
  std::vector<T> part(static_cast<std::size_t>(share.count), poison);
  communicator.reduce_scatter(elements(std::span<T>(own)), elements(std::span<T>(part)));
  faults.compare("reduce-scatter", part, [&](std::int64_t i) { return sum(share.first + i); });

  std::fill(out.begin(), out.end(), poison);
  communicator.all_gather(elements(std::span<T>(part)), elements(std::span<T>(out)));
  faults.compare("all-gather", out, sum);
  std::fill(out.begin(), out.end(), poison);
  std::copy(part.begin(), part.end(), out.begin() + share.first);
  const auto own_share = std::span<T>(out).subspan(static_cast<std::size_t>(share.first), part.size());
  communicator.all_gather(elements(own_share), elements(std::span<T>(out)));
  faults.compare("all-gather in place", out, sum);

  for (const int root : {0, size - 1}) {
    own = values_of<T>(rank, total);
    communicator.broadcast(elements(std::span<T>(own)), root);
    faults.compare("broadcast", own, [&](std::int64_t i) { return value_at<T>(root, i); });
  }
  return faults.count();
}

}  // namespace

int every_value(Communicator& communicator) {
  int faults = 0;
  for (const std::int64_t total : {0, 1, 2, 3, 5, 7, 64, 1000, 4097, 100'003}) {
    faults += values_of_type<float>(communicator, total);
    faults += values_of_type<double>(communicator, total);
    faults += values_of_type<std::int64_t>(communicator, total);
  }
  faults += values_of_type<float>(communicator, 5'000'003);  // a ring collective sends this in several chunks
  std::array<std::byte, 5> bytes{};
  bytes.fill(static_cast<std::byte>(communicator.rank() + 1));
  communicator.broadcast(comm::elements(std::span<std::byte>(bytes)), communicator.size() - 1);
  for (const std::byte byte : bytes) faults += byte != static_cast<std::byte>(communicator.size());
  communicator.barrier();
  return faults;
}

}  // namespace strobe::test
