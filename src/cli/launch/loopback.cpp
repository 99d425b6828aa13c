// The library is embedded in this program, so that a copy of the program needs no other file.
#include "cli/launch/loopback.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "core/fail.h"
#include "core/write_all.h"

// clang-format off
asm(".pushsection .rodata\n"
    ".global strobe_loopback_begin\n"
    "strobe_loopback_begin:\n"
    ".incbin \"" STROBE_LOOPBACK_LIBRARY "\"\n"
    ".global strobe_loopback_end\n"
    "strobe_loopback_end:\n"
    ".byte 0\n"
    ".popsection\n");
// clang-format on

extern "C" const char strobe_loopback_begin[], strobe_loopback_end[];

namespace strobe::cli {

LoopbackLibrary::LoopbackLibrary() : descriptor_(memfd_create("strobe-loopback", MFD_CLOEXEC)) {
  if (descriptor_ < 0) fail(ErrorCode::runtime, "launch: cannot create an unnamed file: {}", std::strerror(errno));
  const auto bytes = static_cast<std::size_t>(strobe_loopback_end - strobe_loopback_begin);
  const int error = write_all(descriptor_, std::string_view(strobe_loopback_begin, bytes));
  if (error == 0) return;
  close(descriptor_);
  fail(ErrorCode::runtime, "launch: cannot write an unnamed file of {} bytes: {}", bytes, std::strerror(error));
}

LoopbackLibrary::~LoopbackLibrary() { close(descriptor_); }

std::string LoopbackLibrary::preload() const {
  const std::string own = fmt::format("/proc/{}/fd/{}", getpid(), descriptor_);
  const char* const others = getenv("LD_PRELOAD");
  return others && others[0] ? own + ":" + others : own;
}

void remove_loopback_library() {
  const char* const variable = getenv("LD_PRELOAD");
  const std::string all = variable ? variable : "";
  const std::size_t end = all.find(':');
  const std::string_view first = std::string_view(all).substr(0, end);
  if (!first.starts_with("/proc/") || first.find("/fd/") == std::string_view::npos) return;
  if (end == std::string::npos) {
    unsetenv("LD_PRELOAD");
  } else {
    setenv("LD_PRELOAD", all.substr(end + 1).c_str(), 1);
  }
}

}  // namespace strobe::cli
