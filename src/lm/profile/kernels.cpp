// Assigns GPU records (kernels and copies) to operations, and sums them by kernel.
#include "lm/profile/profile.h"

#include <algorithm>
#include <map>

#include "core/fail.h"

namespace strobe::lm {

namespace {

const std::string* operation_of(const Profile& profile, const GpuRecord& record) {
  return record.launcher == 0 ? nullptr : &profile.operations[record.launcher - 1].name;
}

template <class Counts>
std::vector<KernelSum> kernel_sums(const Profile& profile, Counts counts) {
  std::map<std::string, KernelSum> sums;
  for (const GpuRecord& record : profile.records) {
    const std::string* const operation = operation_of(profile, record);
    if (!counts(operation)) continue;
    KernelSum& sum = sums[record.name];
    sum.name = record.name;
    ++sum.calls;
    sum.seconds += record.seconds;
    if (operation && std::find(sum.operations.begin(), sum.operations.end(), *operation) == sum.operations.end()) {
      sum.operations.push_back(*operation);
    }
  }
  std::vector<KernelSum> sorted;
  for (auto& [name, sum] : sums) sorted.push_back(std::move(sum));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const KernelSum& a, const KernelSum& b) { return a.seconds > b.seconds; });
  return sorted;
}

// Returns the position of the opening bracket that matches the closing one at `close`, or npos.
std::size_t opening(std::string_view text, std::size_t close) {
  const char up = text[close], down = up == '>' ? '<' : '(';
  int depth = 0;
  for (std::size_t at = close + 1; at-- > 0;) {
    depth += text[at] == up ? 1 : text[at] == down ? -1 : 0;
    if (depth == 0) return at;
  }
  return std::string_view::npos;
}

}  // namespace

void attribute(Profile& profile, std::vector<GpuRecord> records, double begin) {
  for (GpuRecord& record : records) {
    record.begin -= begin;
    if (record.launcher == 0) continue;
    if (record.launcher > profile.operations.size()) {
      fail(ErrorCode::runtime, "lm profile: {} was launched by operation {}, but there are only {}", record.name,
           record.launcher, profile.operations.size());
    }
    profile.operations[record.launcher - 1].seconds += record.seconds;
  }
  profile.records = std::move(records);
}

std::vector<KernelSum> sums_by_kernel(const Profile& profile) {
  return kernel_sums(profile, [](const std::string*) { return true; });
}

std::vector<KernelSum> sums_by_kernel(const Profile& profile, const std::string& operation) {
  return kernel_sums(profile, [&](const std::string* of) { return of && *of == operation; });
}

double outside_seconds(const Profile& profile) {
  double seconds = 0;
  for (const GpuRecord& record : profile.records) seconds += record.launcher == 0 ? record.seconds : 0;
  return seconds;
}

double record_seconds(const Profile& profile) {
  double seconds = 0;
  for (const GpuRecord& record : profile.records) seconds += record.seconds;
  return seconds;
}

double busy_seconds(const Profile& profile) {  // requires records sorted by begin
  double seconds = 0, until = 0;
  bool is_first = true;
  for (const GpuRecord& record : profile.records) {
    const double end = record.begin + record.seconds;
    if (is_first || record.begin >= until) {
      seconds += record.seconds;
    } else if (end > until) {
      seconds += end - until;
    }
    until = is_first ? end : std::max(until, end);
    is_first = false;
  }
  return seconds;
}

std::string short_kernel_name(std::string_view name, std::size_t most) {
  if (name.ends_with(')')) name = name.substr(0, opening(name, name.size() - 1));
  const std::size_t arguments = name.ends_with('>') ? opening(name, name.size() - 1) : name.size();
  const std::size_t space = name.substr(0, arguments).rfind("::");
  if (space != std::string_view::npos) {
    name.remove_prefix(space + 2);
  } else if (name.starts_with("void ")) {
    name.remove_prefix(5);
  }
  if (name.size() <= most) return std::string(name);
  return std::string(name.substr(0, most - 3)) + "...";
}

}  // namespace strobe::lm
