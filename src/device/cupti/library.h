// The CUPTI functions that Strobe calls. libcupti is loaded by the first trace, so a machine without it runs everything
// except traces. It is loaded from the path in STROBE_CUPTI if that is set, otherwise from the system's search path or
// the folder where CMake found it.
#pragma once

#include <cuda.h>
#include <cupti_activity.h>
#include <cupti_result.h>

#include <string>

#include "core/fail.h"
#include "device/shared_library.h"

namespace strobe::cupti {

inline LibraryFiles cupti_files() {
  const std::string file = fmt::format("libcupti.so.{}", CUDA_VERSION / 1000);
  return {
      .files = {file, STROBE_CUPTI_LIBRARY},
      .advice = fmt::format("cannot load CUPTI; install the CUDA toolkit or set STROBE_CUPTI to the path of {}", file),
      .variable = "STROBE_CUPTI"};
}

struct Library : SharedLibrary {
  Library() : SharedLibrary(cupti_files()) {}

  decltype(cuptiActivityRegisterCallbacks)* register_callbacks = function("cuptiActivityRegisterCallbacks");
  decltype(cuptiActivityEnable)* enable = function("cuptiActivityEnable");
  decltype(cuptiActivityDisable)* disable = function("cuptiActivityDisable");
  decltype(cuptiActivityFlushAll)* flush_all = function("cuptiActivityFlushAll");
  decltype(cuptiActivityGetNextRecord)* next_record = function("cuptiActivityGetNextRecord");
  decltype(cuptiActivityGetNumDroppedRecords)* dropped_records = function("cuptiActivityGetNumDroppedRecords");
  decltype(cuptiActivityPushExternalCorrelationId)* push_id = function("cuptiActivityPushExternalCorrelationId");
  decltype(cuptiActivityPopExternalCorrelationId)* pop_id = function("cuptiActivityPopExternalCorrelationId");
  decltype(cuptiGetTimestamp)* timestamp = function("cuptiGetTimestamp");
  decltype(cuptiGetResultString)* result_string = function("cuptiGetResultString");
};

inline const Library& library() { return opened<Library>(); }

// Throws Error(runtime) with CUPTI's message unless `result` is success.
inline void check(CUptiResult result, const std::string& what) {
  if (result == CUPTI_SUCCESS) return;
  const char* words = nullptr;
  if (library().result_string(result, &words) != CUPTI_SUCCESS || !words) words = "no description";
  const bool is_taken = result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  fail(ErrorCode::runtime, "kernel trace: CUPTI: {} failed: {} ({}){}", what, words, static_cast<int>(result),
       is_taken ? "; another profiler is attached to this process" : "");
}

}  // namespace strobe::cupti
