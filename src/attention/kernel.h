// A kernel is one row of the ordered list that choose() walks: a name, what it refuses, what it needs, how it runs.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "attention/problem.h"

namespace strobe {

struct Kernel {
  const char* name;  // the same in files, tests, benchmarks and --impl
  Device device;
  std::string (*refusal)(const Problem&);        // empty: supports it; else the reason, without the kernel's name
  std::string (*configuration)(const Problem&);  // tiles and instruction set, for people
  std::size_t (*workspace_bytes)(const Problem&);
  void (*run)(const Problem&, void* workspace);  // workspace: that many bytes, aligned to 64; contents undefined
  // Why it is taken only when it is named, though it supports the problem; empty, or no function: it is not so.
  std::string (*reserve)(const Problem&) = nullptr;
};

// In order of preference; the reference is last.
std::span<const Kernel> kernels();

// The first kernel that supports the problem and has no reserve, or the named one. Pure: launches nothing, allocates
// nothing on a device. Throws Error(unsupported) with the reason where there is none.
const Kernel& choose(const Problem& problem, std::string_view name = {});

}  // namespace strobe
