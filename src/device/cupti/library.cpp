// Opens libcupti and reports its errors.
#include "device/cupti/library.h"

#include "core/fail.h"

namespace strobe::cupti {
namespace {

LibraryFiles cupti_files() {
  const std::string file = fmt::format("libcupti.so.{}", CUDA_VERSION / 1000);
  return {.files = {file, STROBE_CUPTI_LIBRARY},
          .advice = fmt::format("no CUPTI; install the CUDA toolkit's, or set STROBE_CUPTI to its {}", file),
          .variable = "STROBE_CUPTI"};
}

}  // namespace

Library::Library() : SharedLibrary(cupti_files()) {}

void check(CUptiResult result, const std::string& what) {
  if (result == CUPTI_SUCCESS) return;
  const char* words = nullptr;
  if (library().result_string(result, &words) != CUPTI_SUCCESS || !words) words = "no description";
  const bool is_taken = result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  fail(ErrorCode::runtime, "kernel trace: CUPTI: {} failed: {} ({}){}", what, words, static_cast<int>(result),
       is_taken ? "; another profiler is attached to this process" : "");
}

}  // namespace strobe::cupti
