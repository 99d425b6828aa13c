// Waiting between warps: barriers in shared memory that count arrivals and bytes (mbarrier), and barriers by number.
// The copy engine's loads (TMA) arrive at the first kind. Waiting between blocks: counters in global memory.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace strobe::cuda::sm90 {

// A barrier in shared memory, 8 bytes. It runs in phases: a phase ends when `count` threads have arrived and all bytes
// announced have come. A wait names the parity of the phase that it waits for: 0 first, then 1, then 0.
struct Barrier {
  std::uint32_t address;

  __device__ __forceinline__ void begin(int count) const {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address), "r"(count) : "memory");
  }
  __device__ __forceinline__ void arrive() const {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory");
  }
  // Bytes may be announced after their copies have started: this arrival is what the phase still waits for.
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

// A place in a ring of stages, and the parity of its phase.
template <int kStages>
struct RingPlace {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void move() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// After begin(), before the copy engine may arrive.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Barriers 1 to 15 of the block, by number, for `threads` threads; 0 is block_sync()'s.
__device__ __forceinline__ void barrier_sync(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
__device__ __forceinline__ void barrier_arrive(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// A counter of other blocks' work: whoever sees it counted up sees what was written, and added, before it by the thread
// that counts and by those that it met before.
__device__ __forceinline__ void count_up(std::uint32_t* counter, std::uint32_t by = 1) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(counter), "r"(by) : "memory");
}
__device__ __forceinline__ void await_count(const std::uint32_t* counter, std::uint32_t count) {
  std::uint32_t seen;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
  } while (seen < count);
}

// A ticket that may be on its way while the thread does other things; `never` is one that is not reached, and not a
// constant. Of an addition, or of a limit that it knows, ptxas makes one for the warp, and has the lanes exchange,
// hence wait for, what they get.
__device__ __forceinline__ std::uint32_t ask_for_ticket(std::uint32_t* counter, std::uint32_t never) {
  std::uint32_t ticket;
  asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(ticket) : "l"(counter), "r"(never) : "memory");
  return ticket;
}

// What ordinary stores wrote to shared memory is there for products and the copy engine after this and a barrier.
__device__ __forceinline__ void publish_stores() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Registers of each thread of a warpgroup, from here on.
template <int kCount>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// A value that all lanes of a warp have, told to the compiler, which then needs one register a warp for what follows
// from it.
template <class Value>
__device__ __forceinline__ Value same_for_warp(Value value) {
  return __shfl_sync(0xffffffffu, value, 0);
}

// threadIdx.x, asked for anew each time: the compiler would keep in registers what follows from it, and there are none.
__device__ __forceinline__ int thread_anew() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// One thread of a warp.
__device__ __forceinline__ bool elect() {
  std::uint32_t chosen;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.b32 %0, 1, 0, p;\n}\n" : "=r"(chosen));
  return chosen != 0;
}

// A box of a tensor map, at (column, row, head, batch), to shared memory; its bytes arrive at `barrier`.
__device__ __forceinline__ void copy_box(std::uint32_t to, const CUtensorMap& map, int column, int row, int head,
                                         int batch, Barrier barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(&map), "r"(barrier.address), "r"(column), "r"(row), "r"(head), "r"(batch)
      : "memory");
}

// Bytes that lie side by side, a multiple of 16, likewise.
__device__ __forceinline__ void copy_bytes(std::uint32_t to, const void* from, std::uint32_t bytes, Barrier barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier.address)
               : "memory");
}

// Adds `bytes` bytes of fp32 in shared memory to global memory, as a bulk group of its own; a multiple of 16. The
// caller orders the ordinary stores before it by publish_stores() and a barrier.
__device__ __forceinline__ void bulk_reduce_add(float* to, std::uint32_t from, std::uint32_t bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n"
      "cp.async.bulk.commit_group;" ::"l"(to),
      "r"(from), "r"(bytes)
      : "memory");
}
// Waits until all but this thread's newest kLeft bulk groups have read shared memory.
template <int kLeft>
__device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kLeft) : "memory");
}
// Waits until this thread's bulk groups are complete: what a later release of this thread publishes includes them.
__device__ __forceinline__ void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group 0;\nfence.proxy.async;" ::: "memory");
}

__device__ __forceinline__ void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

}  // namespace strobe::cuda::sm90
