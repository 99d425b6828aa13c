#include "ops/column_sums.h"

#include <algorithm>

#include "device/host/thread_pool.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/sum.h"
#include "ops/cuda/launch.h"

namespace strobe::ops {

// Columns are shared out, not rows: each sum then has the order of the rows, whatever the number of threads.
void column_sums(const Place& place, const ColumnSums& shape, const void* x, float* sums, Into into) {
  if (place.device == Device::cuda) return cuda::column_sums(place, shape, x, sums, into);
  constexpr std::int64_t kFewestColumns = 64, kElementsOfATask = 8192;
  const std::int64_t share = std::max(kFewestColumns, kElementsOfATask / std::max<std::int64_t>(1, shape.rows));
  const Isa& isa = chosen_isa();
  with_type(shape.dtype, [&]<class T>(T*) {
    parallel_for(place.threads, tasks_of(shape.columns, share), [&](int, std::int64_t task) {
      const std::int64_t first = task * share, count = std::min(share, shape.columns - first);
      if (into == Into::set) std::fill_n(sums + first, count, 0.0f);
      for (std::int64_t r = 0; r < shape.rows; ++r) {
        isa.of<T>().add(static_cast<const T*>(x) + r * shape.columns + first, sums + first, count);
      }
    });
  });
}

}  // namespace strobe::ops
