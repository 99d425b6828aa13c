// Where libcupti is looked for: STROBE_CUPTI, the system's search path, and where CMake found it.
#include "device/cupti/library.h"

#include <cuda.h>

#include <cstdlib>
#include <vector>

#include "core/fail.h"
#include "device/shared_library.h"

namespace strobe::cupti {

namespace {

constexpr int kCudaMajor = CUDA_VERSION / 1000;

SharedLibrary open_cupti() {
  const std::string short_name = fmt::format("libcupti.so.{}", kCudaMajor);
  const char* const named = std::getenv("STROBE_CUPTI");
  std::vector<std::string> files = {short_name, STROBE_CUPTI_LIBRARY};
  if (named && *named) files = {named};
  return SharedLibrary(files,
                       fmt::format("no CUPTI; install the toolkit's, or name its {} with STROBE_CUPTI", short_name));
}

Library open_library() {
  const SharedLibrary opened = open_cupti();
  Library found{};
  opened.find("cuptiActivityRegisterCallbacks", found.register_callbacks);
  opened.find("cuptiActivityEnable", found.enable);
  opened.find("cuptiActivityDisable", found.disable);
  opened.find("cuptiActivityFlushAll", found.flush_all);
  opened.find("cuptiActivityGetNextRecord", found.next_record);
  opened.find("cuptiActivityGetNumDroppedRecords", found.dropped_records);
  opened.find("cuptiActivityPushExternalCorrelationId", found.push_id);
  opened.find("cuptiActivityPopExternalCorrelationId", found.pop_id);
  opened.find("cuptiGetTimestamp", found.timestamp);
  opened.find("cuptiGetResultString", found.result_string);
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
