// Kernels of a profile: whose they are, and their sums. Pure functions of records; profile_run.cpp has the records
// made.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lm/profile/profile.h"

namespace strobe::lm {

// Gives each operation the seconds of its records and the profile the records, their begin counted from `begin`. Those
// with launcher 0 are nobody's. Throws Error(runtime) where a launcher is no operation.
void attribute(Profile& profile, std::vector<GpuRecord> records, double begin);

struct KernelSum {
  std::string name;
  int calls = 0;
  double seconds = 0;
  std::vector<std::string> operations;  // that launched it, each once
};

std::vector<KernelSum> sums_by_kernel(const Profile& profile);                                // the longest first
std::vector<KernelSum> sums_by_kernel(const Profile& profile, const std::string& operation);  // of that one alone

double outside_seconds(const Profile& profile);  // of records that are nobody's
double record_seconds(const Profile& profile);   // of all: operations' and nobody's
double busy_seconds(const Profile& profile);     // in which at least one record ran: each moment counts once

// A kernel's name for a table, without its type, namespaces and parameters and cut to `most` bytes:
// "adamw_kernel<__nv_bfloat16>".
std::string short_kernel_name(std::string_view name, std::size_t most = 60);

}  // namespace strobe::lm
