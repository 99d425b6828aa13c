// Wrappers of PTX instructions for Hopper: mbarriers, named barriers, counters in global memory, register reallocation,
// TMA loads and TMA reductions. Used by all sm90 kernels.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace strobe::cuda::sm90 {

// mbarrier in shared memory, 8 bytes. A phase ends when `count` threads have arrived and all expected bytes have been
// written. wait() takes the parity of the phase to wait for: 0 first, then 1, then 0.
struct Barrier {
  std::uint32_t address;

  __device__ __forceinline__ void begin(int count) const {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address), "r"(count) : "memory");
  }
  __device__ __forceinline__ void arrive() const {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory");
  }
  // The expected bytes may be set after their copies have started: the phase cannot end before this arrival.
  __device__ __forceinline__ void arrive_expecting(std::uint32_t bytes) const {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address), "r"(bytes) : "memory");
  }
  __device__ __forceinline__ void wait(std::uint32_t parity) const {
    asm volatile(
        "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra "
        "again;\n}\n" ::"r"(address),
        "r"(parity)
        : "memory");
  }
};

// Pipeline state: stage index and phase parity.
template <int kStages>
struct PipelineState {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void move() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// Fence between begin() and the first TMA arrival.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Named barriers 1 to 15 of the block, for `threads` threads. block_sync() uses barrier 0.
__device__ __forceinline__ void barrier_sync(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// Release-increment of a counter in global memory that other blocks wait for. A thread that acquires the new value also
// sees all earlier writes and atomics of this thread, and those of threads that synchronized with it before.
__device__ __forceinline__ void count_up(std::uint32_t* counter, std::uint32_t by = 1) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(counter), "r"(by) : "memory");
}
__device__ __forceinline__ void await_count(const std::uint32_t* counter, std::uint32_t count) {
  std::uint32_t seen;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
  } while (seen < count);
}

// Increments a work counter and returns its old value; the caller overlaps the latency of the atomic. never: a value
// that the counter does not reach. It must be unknown at compile time: with a constant, as with atomicAdd, ptxas
// aggregates the atomics of a warp, and all lanes wait for the result.
__device__ __forceinline__ std::uint32_t fetch_work_index_async(std::uint32_t* counter, std::uint32_t never) {
  std::uint32_t index;
  asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(index) : "l"(counter), "r"(never) : "memory");
  return index;
}

// Makes earlier ordinary stores to shared memory visible to the async proxy (wgmma, TMA) after the next barrier.
__device__ __forceinline__ void publish_stores() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// setmaxnreg: sets the registers per thread of the calling warpgroup. _dealloc lowers the number; _alloc raises it and
// waits until enough registers are free.
template <int kCount>
__device__ __forceinline__ void warpgroup_reg_dealloc() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void warpgroup_reg_alloc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// Broadcasts lane 0's value, so that the compiler can keep it and values derived from it in uniform registers.
template <class Value>
__device__ __forceinline__ Value same_for_warp(Value value) {
  return __shfl_sync(0xffffffffu, value, 0);
}

// Reads threadIdx.x again at each call. Otherwise the compiler keeps values derived from it in registers, and none are
// free.
__device__ __forceinline__ int reread_thread_index() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// True in one elected thread of the warp.
__device__ __forceinline__ bool elect() {
  std::uint32_t chosen;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.b32 %0, 1, 0, p;\n}\n" : "=r"(chosen));
  return chosen != 0;
}

// TMA load of a tensor map's box at (column, row, head, batch) to shared memory; signals `barrier` (complete_tx).
__device__ __forceinline__ void copy_box(std::uint32_t to, const CUtensorMap& map, int column, int row, int head,
                                         int batch, Barrier barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(&map), "r"(barrier.address), "r"(column), "r"(row), "r"(head), "r"(batch)
      : "memory");
}

// The same with an L2 cache policy.
__device__ __forceinline__ void copy_box(std::uint32_t to, const CUtensorMap& map, int column, int row, int head,
                                         int batch, Barrier barrier, std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4, "
      "%5, %6}], [%2], %7;" ::"r"(to),
      "l"(&map), "r"(barrier.address), "r"(column), "r"(row), "r"(head), "r"(batch), "l"(policy)
      : "memory");
}

// L2 cache policy for data that is read once.
__device__ __forceinline__ std::uint64_t evict_first_policy() {
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// TMA bulk copy of contiguous bytes (a multiple of 16) to shared memory; signals `barrier` (complete_tx).
__device__ __forceinline__ void copy_bytes(std::uint32_t to, const void* from, std::uint32_t bytes, Barrier barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier.address)
               : "memory");
}

// TMA reduction: adds `bytes` bytes (a multiple of 16) of fp32 in shared memory to global memory, as one bulk group.
// After ordinary stores to this shared memory the caller first needs publish_stores() and a barrier.
__device__ __forceinline__ void bulk_reduce_add(float* to, std::uint32_t from, std::uint32_t bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n"
      "cp.async.bulk.commit_group;" ::"l"(to),
      "r"(from), "r"(bytes)
      : "memory");
}
// Waits until all of this thread's bulk groups except the newest kLeft have read shared memory.
template <int kLeft>
__device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kLeft) : "memory");
}
// Waits until this thread's bulk groups are complete. A later release by this thread then covers them.
__device__ __forceinline__ void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group 0;\nfence.proxy.async;" ::: "memory");
}

__device__ __forceinline__ void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

}  // namespace strobe::cuda::sm90
