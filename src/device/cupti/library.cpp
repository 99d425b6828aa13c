// Where libcupti is looked for: STROBE_CUPTI, the system's search path, and where CMake found it.
#include "device/cupti/library.h"

#include <cuda.h>
#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "core/fail.h"

namespace strobe::cupti {

namespace {

constexpr int kCudaMajor = CUDA_VERSION / 1000;

void* open_cupti() {
  const std::string short_name = fmt::format("libcupti.so.{}", kCudaMajor);
  const char* const named = std::getenv("STROBE_CUPTI");
  std::vector<std::string> files = {short_name, STROBE_CUPTI_LIBRARY};
  if (named && *named) files = {named};
  std::string reasons;
  for (const std::string& file : files) {
    if (file.empty()) continue;
    if (void* const opened = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return opened;
    reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", dlerror());
  }
  fail(ErrorCode::unsupported, "no CUPTI; install the toolkit's, or name its {} with STROBE_CUPTI: {}", short_name,
       reasons);
}

template <class Function>
void find(void* opened, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(opened, name));
  if (!function) fail(ErrorCode::unsupported, "the CUPTI that was opened has no {}", name);
}

Library open_library() {
  void* const opened = open_cupti();
  Library found{};
  find(opened, "cuptiActivityRegisterCallbacks", found.register_callbacks);
  find(opened, "cuptiActivityEnable", found.enable);
  find(opened, "cuptiActivityDisable", found.disable);
  find(opened, "cuptiActivityFlushAll", found.flush_all);
  find(opened, "cuptiActivityGetNextRecord", found.next_record);
  find(opened, "cuptiActivityGetNumDroppedRecords", found.dropped_records);
  find(opened, "cuptiActivityPushExternalCorrelationId", found.push_id);
  find(opened, "cuptiActivityPopExternalCorrelationId", found.pop_id);
  find(opened, "cuptiGetTimestamp", found.timestamp);
  find(opened, "cuptiGetResultString", found.result_string);
  return found;
}

}  // namespace

const Library& library() {
  static const Library opened = open_library();
  return opened;
}

void check(CUptiResult result, const std::string& what) {
  if (result == CUPTI_SUCCESS) return;
  const char* words = nullptr;
  if (library().result_string(result, &words) != CUPTI_SUCCESS || !words) words = "no words for it";
  const bool is_taken = result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  fail(ErrorCode::runtime, "kernel trace: CUPTI: {} failed: {} ({}){}", what, words, static_cast<int>(result),
       is_taken ? "; another profiler watches this process" : "");
}

}  // namespace strobe::cupti
