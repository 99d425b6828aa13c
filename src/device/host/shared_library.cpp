#include "device/shared_library.h"

#include <dlfcn.h>

#include "core/fail.h"

namespace strobe {

SharedLibrary::SharedLibrary(std::span<const std::string> files, const std::string& advice) {
  std::string reasons;
  for (const std::string& file : files) {
    if (file.empty()) continue;
    file_ = file;
    handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_) return;
    reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", dlerror());
  }
  fail(ErrorCode::unsupported, "{}: {}", advice, reasons);
}

void* SharedLibrary::address_of(const char* name) const {
  if (void* const found = dlsym(handle_, name)) return found;
  fail(ErrorCode::unsupported, "{} has no {}", file_, name);
}

}  // namespace strobe
