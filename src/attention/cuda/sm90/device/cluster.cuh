// Distributed shared memory and barriers between the blocks of a cluster. Used by backward/pairs.cuh.
#pragma once

#include "attention/cuda/sm90/device/barrier.cuh"

namespace strobe::cuda::sm90 {

__device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Maps an address of this block's shared memory to the same place in the cluster's block `rank`.
__device__ __forceinline__ std::uint32_t of_rank(std::uint32_t address, unsigned rank) {
  std::uint32_t mapped;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}

// Barrier of all threads of the cluster that have not exited.
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// Arrives at the same barrier of another block without cluster-scope release. A release would wait for all reductions
// that the thread has issued to global memory. This arrival orders wgmma and TMA only, not ordinary accesses.
__device__ __forceinline__ void arrive_at(Barrier barrier, unsigned rank) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(of_rank(barrier.address, rank)) : "memory");
}
// Arrives at the same barrier of another block with release, which orders ordinary accesses too.
__device__ __forceinline__ void release_at(Barrier barrier, unsigned rank) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(of_rank(barrier.address, rank))
               : "memory");
}
// Waits for release_at() of another block's threads, with acquire.
__device__ __forceinline__ void wait_for_cluster(Barrier barrier, std::uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n@!done "
      "bra again;\n}\n" ::"r"(barrier.address),
      "r"(parity)
      : "memory");
}

__device__ __forceinline__ void store_shared_of(std::uint32_t address, unsigned rank, std::uint32_t value) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(of_rank(address, rank)), "r"(value) : "memory");
}

// Copies `bytes` bytes (a multiple of 16) of this block's shared memory to block `rank`, and signals that block's
// `barrier` (complete_tx).
__device__ __forceinline__ void copy_to_rank(std::uint32_t to, std::uint32_t from, std::uint32_t bytes, Barrier barrier,
                                             unsigned rank) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   of_rank(to, rank)),
               "r"(from), "r"(bytes), "r"(of_rank(barrier.address, rank))
               : "memory");
}

// TMA multicast: loads a box to the same address in all blocks of `ranks` (one bit each) and signals each block's
// `barrier` (complete_tx).
__device__ __forceinline__ void copy_box_to_ranks(std::uint32_t to, const CUtensorMap& map, int column, int row,
                                                  int head, int batch, Barrier barrier, std::uint16_t ranks) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, "
      "%4, %5, %6}], [%2], %7;" ::"r"(to),
      "l"(&map), "r"(barrier.address), "r"(column), "r"(row), "r"(head), "r"(batch), "h"(ranks)
      : "memory");
}

}  // namespace strobe::cuda::sm90
