// CUPTI's functions. The first trace opens libcupti, so that a machine without it runs everything except traces.
// Searches STROBE_CUPTI, the system's search path, and the folder where CMake found it.
#pragma once

#include <cuda.h>
#include <cupti_activity.h>
#include <cupti_result.h>

#include <string>

#include "device/shared_library.h"

namespace strobe::cupti {

struct Library : SharedLibrary {
  Library();

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
void check(CUptiResult result, const std::string& what);

}  // namespace strobe::cupti
