// Implements KernelTrace with CUPTI's activity records. The record of a kernel contains the correlation id of the CUDA
// call that launched it. An external-correlation record maps that id to the launcher, the argument of enter(). CUPTI
// writes external-correlation records only if CUDA calls are traced too.
#include "device/kernel_trace.h"

#include <cuda_runtime_api.h>
#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "core/clock.h"
#include "core/fail.h"
#include "device/cuda/check.h"
#include "device/cupti/library.h"
#include "device/gpu_facts.h"

namespace strobe {

namespace {

using cupti::library;

constexpr CUpti_ExternalCorrelationKind kLauncher = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,    CUPTI_ACTIVITY_KIND_MEMCPY,  CUPTI_ACTIVITY_KIND_MEMSET};
constexpr std::size_t kBufferBytes = std::size_t{8} << 20, kBufferAlignment = 8;

// A CUPTI record, with times in CUPTI's nanoseconds and a mangled name.
struct Raw {
  GpuRecord::Kind kind;
  const char* name;  // owned by CUPTI or a literal; never freed
  std::uint32_t correlation, second_correlation;
  std::uint32_t stream;
  std::uint64_t begin, end;
  std::size_t bytes;
};

// Records received from CUPTI's threads. There is one instance per process, because CUPTI's callbacks have no user
// pointer.
struct Collected {
  std::mutex mutex;
  bool is_taken = false;  // true while a trace uses it
  std::vector<Raw> records;
  std::unordered_map<std::uint32_t, std::uint64_t> launchers;  // by correlation id
  std::size_t dropped = 0;
  bool is_out_of_memory = false;

  void clear() {
    records.clear();
    launchers.clear();
    dropped = 0;
    is_out_of_memory = false;
  }
};

Collected& collected() {
  static auto* const the = new Collected;  // never destroyed, because CUPTI may still deliver records at exit
  return *the;
}

const char* copy_name(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD: return "copy host to GPU";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH: return "copy GPU to host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD: return "copy GPU to GPU";
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH: return "copy host to host";
    default: return "copy";
  }
}

// Adds a record. Uses the structures of CUDA 12; later versions only append members.
void take(Collected& into, const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& one = *reinterpret_cast<const CUpti_ActivityKernel9*>(record);
      into.records.push_back({GpuRecord::Kind::kernel, one.name, one.correlationId, one.correlationId, one.streamId,
                              one.start, one.end, 0});
      return;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& one = *reinterpret_cast<const CUpti_ActivityMemcpy5*>(record);
      into.records.push_back({GpuRecord::Kind::copy, copy_name(one.copyKind), one.correlationId,
                              one.runtimeCorrelationId, one.streamId, one.start, one.end, one.bytes});
      return;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& one = *reinterpret_cast<const CUpti_ActivityMemset4*>(record);
      into.records.push_back({GpuRecord::Kind::clear, "clear", one.correlationId, one.correlationId, one.streamId,
                              one.start, one.end, one.bytes});
      return;
    }
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& one = *reinterpret_cast<const CUpti_ActivityExternalCorrelation*>(record);
      if (one.externalKind == kLauncher) into.launchers[one.correlationId] = one.externalId;
      return;
    }
    default: return;  // records of CUDA calls, which are not needed
  }
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *bytes = *buffer ? kBufferBytes : 0;  // without a buffer, CUPTI drops records and counts them
  *most_records = 0;                    // no limit other than the size
}

void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                          std::size_t used) {
  Collected& into = collected();
  const std::lock_guard lock(into.mutex);
  try {
    CUpti_Activity* record = nullptr;
    while (used && library().next_record(buffer, used, &record) == CUPTI_SUCCESS) take(into, record);
  } catch (const std::bad_alloc&) {
    into.is_out_of_memory = true;
  }
  std::size_t dropped = 0;
  if (library().dropped_records(context, stream, &dropped) == CUPTI_SUCCESS) into.dropped += dropped;
  std::free(buffer);
}

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 ? text.get() : name;
}

// One moment on two clocks: `cupti_time` is CUPTI's clock, in nanoseconds from 1970, and `host_time` is that of
// now_seconds(). Times are converted as differences from this moment, because seconds from 1970 in a double do not
// resolve a kernel's duration.
struct Moment {
  std::uint64_t cupti_time = 0;
  double host_time = 0;

  double seconds_of(std::uint64_t other) const {
    return host_time + 1e-9 * static_cast<double>(static_cast<std::int64_t>(other - cupti_time));
  }
};

// Reads both clocks 16 times and returns the reading that took the least time.
Moment same_moment() {
  Moment moment;
  double fastest = 1e300;
  for (int i = 0; i < 16; ++i) {
    std::uint64_t cupti_time = 0;
    const double before = now_seconds();
    cupti::check(library().timestamp(&cupti_time), "cuptiGetTimestamp");
    const double after = now_seconds();
    if (after - before >= fastest) continue;
    fastest = after - before;
    moment = {cupti_time, (before + after) / 2};
  }
  return moment;
}

std::vector<GpuRecord> joined(const Collected& all, const Moment& moment) {
  std::unordered_map<const char*, std::string> names;
  std::vector<GpuRecord> records;
  records.reserve(all.records.size());
  for (const Raw& raw : all.records) {
    if (raw.end == 0 || raw.end < raw.begin) {
      fail(ErrorCode::runtime, "kernel trace: CUPTI has no time of {}: {} to {} ns", raw.name, raw.begin, raw.end);
    }
    auto name = names.find(raw.name);
    if (name == names.end()) name = names.emplace(raw.name, demangled(raw.name)).first;
    auto launcher = all.launchers.find(raw.correlation);
    if (launcher == all.launchers.end()) launcher = all.launchers.find(raw.second_correlation);
    records.push_back({.kind = raw.kind,
                       .name = name->second,
                       .launcher = launcher == all.launchers.end() ? 0 : launcher->second,
                       .stream = static_cast<int>(raw.stream),
                       .begin = moment.seconds_of(raw.begin),
                       .seconds = 1e-9 * static_cast<double>(raw.end - raw.begin),
                       .bytes = raw.bytes});
  }
  std::stable_sort(records.begin(), records.end(),
                   [](const GpuRecord& a, const GpuRecord& b) { return a.begin < b.begin; });
  return records;
}

}  // namespace

std::string kernel_trace_refusal() {
  if (const std::string reason = current_gpu().reason; !reason.empty()) return reason;
  try {
    library();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

KernelTrace::KernelTrace() {
  if (const std::string reason = kernel_trace_refusal(); !reason.empty()) {
    fail(ErrorCode::unsupported, "kernel trace: {}", reason);
  }
  {
    const std::lock_guard lock(collected().mutex);
    if (collected().is_taken)
      fail(ErrorCode::unsupported, "kernel trace: another trace is active; only one is possible at a time");
    collected().is_taken = true;
    collected().clear();
  }
  is_active_ = true;
  try {
    STROBE_CUDA_CHECK(cudaDeviceSynchronize());  // excludes earlier launches from this trace
    cupti::check(library().register_callbacks(give_buffer, take_buffer), "cuptiActivityRegisterCallbacks");
    for (const CUpti_ActivityKind kind : kKinds) {
      cupti::check(library().enable(kind), fmt::format("cuptiActivityEnable({})", static_cast<int>(kind)));
    }
  } catch (...) {
    end();
    throw;
  }
}

KernelTrace::~KernelTrace() {
  if (!is_active_) return;
  cudaDeviceSynchronize();  // so that the next trace gets no record of this one
  library().flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  end();
}

void KernelTrace::end() {
  for (const CUpti_ActivityKind kind : kKinds) library().disable(kind);
  is_active_ = false;
  const std::lock_guard lock(collected().mutex);
  collected().is_taken = false;
}

void KernelTrace::enter(std::uint64_t launcher) const {
  cupti::check(library().push_id(kLauncher, launcher), "cuptiActivityPushExternalCorrelationId");
}

void KernelTrace::leave() const noexcept {
  std::uint64_t launcher = 0;
  library().pop_id(kLauncher, &launcher);  // fails without effect if there was no enter()
}

std::vector<GpuRecord> KernelTrace::finish() {
  if (!is_active_) fail(ErrorCode::invalid_argument, "kernel trace: finish() was called already");
  STROBE_CUDA_CHECK(cudaDeviceSynchronize());
  const Moment moment = same_moment();
  cupti::check(library().flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  end();
  const std::lock_guard lock(collected().mutex);
  const Collected& all = collected();
  if (all.is_out_of_memory || all.dropped > 0) {
    fail(ErrorCode::runtime, "kernel trace: {} records were lost for lack of memory; {} were kept", all.dropped,
         all.records.size());
  }
  return joined(all, moment);
}

}  // namespace strobe
