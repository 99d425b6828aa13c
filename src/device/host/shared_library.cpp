#include "device/shared_library.h"

#include <dlfcn.h>

#include <string_view>

#include "core/fail.h"

namespace strobe {

namespace {

// The loader reports why it failed only as text.
bool is_out_of_memory(std::string_view reason) {
  for (const std::string_view text : {"annot allocate memory", "out of memory", "failed to map segment"}) {
    if (reason.find(text) != reason.npos) return true;
  }
  return false;
}

}  // namespace

SharedLibrary::SharedLibrary(std::span<const std::string> files, const std::string& advice) {
  std::string reasons;
  bool out_of_memory = false;
  for (const std::string& file : files) {
    if (file.empty()) continue;
    file_ = file;
    handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_) return;
    const char* const reason = dlerror();
    out_of_memory = out_of_memory || !reason || is_out_of_memory(reason);
    reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", reason ? reason : "out of memory");
  }
  fail(out_of_memory ? ErrorCode::out_of_memory : ErrorCode::unsupported, "{}: {}", advice, reasons);
}

void* SharedLibrary::address_of(const char* name) const {
  if (void* const found = dlsym(handle_, name)) return found;
  fail(ErrorCode::unsupported, "{} has no {}", file_, name);
}

}  // namespace strobe
