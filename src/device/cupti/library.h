// CUPTI's functions, found in libcupti when it is opened: nothing is linked, so that a machine without it runs all but
// traces.
#pragma once

#include <cupti_activity.h>
#include <cupti_result.h>

#include <string>

namespace strobe::cupti {

struct Library {
  decltype(cuptiActivityRegisterCallbacks)* register_callbacks;
  decltype(cuptiActivityEnable)* enable;
  decltype(cuptiActivityDisable)* disable;
  decltype(cuptiActivityFlushAll)* flush_all;
  decltype(cuptiActivityGetNextRecord)* next_record;
  decltype(cuptiActivityGetNumDroppedRecords)* dropped_records;
  decltype(cuptiActivityPushExternalCorrelationId)* push_id;
  decltype(cuptiActivityPopExternalCorrelationId)* pop_id;
  decltype(cuptiGetTimestamp)* timestamp;
  decltype(cuptiGetResultString)* result_string;
};

// Throws Error(unsupported) where it cannot be opened, and then tries again at the next call.
const Library& library();

// Throws Error(runtime) with CUPTI's own words where `result` is none of success.
void check(CUptiResult result, const std::string& what);

}  // namespace strobe::cupti
