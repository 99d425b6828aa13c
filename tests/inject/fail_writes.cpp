// LD_PRELOAD library for tools/fail-writes: makes the Nth call that changes a file fail.
//
//   STROBE_FAIL_STATE    file with two 8-byte integers, shared by the program and its children: the number of calls
//                        and the kind of the one that failed (enum Call); unset: the library does nothing
//   STROBE_FAIL_AT       number of the call that fails, from 1; 0: calls are only counted
//   STROBE_FAIL_ERRNO    errno of that call
//   STROBE_FAIL_ALL      1: every later call fails too, as on a full disk. If the first failing call is a write, it
//                        writes part of the data. A rename over an existing name still succeeds, because it needs no
//                        space
//   STROBE_FAIL_UNNAMED  1: O_TMPFILE is not supported; such calls are not counted
//
// Counted: open for writing, write, pwrite, writev, fsync, fdatasync, ftruncate, rename, renameat, link, linkat, and
// close of a file that is open for writing. Not counted: descriptors 0 to 2, pipes, sockets, memfds and devices.
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace {

enum class Call : int64_t { none, open, write, sync, truncate, rename, link, close };  // as in tools/fail-writes

struct State {
  std::atomic<int64_t> calls;
  std::atomic<Call> failed;
};
State* state = nullptr;
int64_t fail_at = 0;
int fail_errno = EIO;
bool fails_all = false, lacks_unnamed = false;

enum class Verdict { pass, shorten, fail };

long number_in(const char* variable) {
  const char* const text = getenv(variable);
  return text ? atol(text) : 0;
}

__attribute__((constructor)) void begin() {
  const char* const path = getenv("STROBE_FAIL_STATE");
  if (!path) return;
  const long file = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
  void* const mapped = mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, static_cast<int>(file), 0);
  syscall(SYS_close, file);
  if (mapped == MAP_FAILED) abort();
  fail_at = number_in("STROBE_FAIL_AT");
  fail_errno = static_cast<int>(number_in("STROBE_FAIL_ERRNO"));
  fails_all = number_in("STROBE_FAIL_ALL") != 0;
  lacks_unnamed = number_in("STROBE_FAIL_UNNAMED") != 0;
  state = static_cast<State*>(mapped);
}

Verdict next_call(Call call, bool needs_space = true) {
  if (!state) return Verdict::pass;
  const int64_t number = ++state->calls;
  if (fail_at == 0 || number < fail_at) return Verdict::pass;
  if (number > fail_at && !(fails_all && needs_space)) return Verdict::pass;
  if (number == fail_at) state->failed = call;
  errno = fail_errno;
  return number == fail_at && fails_all ? Verdict::shorten : Verdict::fail;
}

// Returns true for memfds, which differ from regular files only in their name in /proc.
bool is_memory_file(int descriptor) {
  char name[32], target[8] = "";
  snprintf(name, sizeof(name), "/proc/self/fd/%d", descriptor);
  return readlink(name, target, sizeof(target)) == sizeof(target) && memcmp(target, "/memfd:", 7) == 0;
}

bool is_counted(int descriptor) {
  const int error = errno;
  struct stat status {};
  const bool counted = descriptor > STDERR_FILENO && fstat(descriptor, &status) == 0 &&
                       (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) && !is_memory_file(descriptor);
  errno = error;
  return counted;
}

bool fails(Call call, bool counted = true) { return counted && next_call(call) != Verdict::pass; }

bool rename_fails(int folder, const char* to) {
  const int error = errno;
  const bool replaces = syscall(SYS_faccessat, folder, to, F_OK) == 0;
  errno = error;
  return next_call(Call::rename, !replaces) != Verdict::pass;
}

bool is_for_writing(int flags) { return (flags & O_ACCMODE) != O_RDONLY; }

bool is_special(const char* path) {
  return strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/sys/", 5) == 0;
}

int opened(int folder, const char* path, int flags, mode_t mode) {
  if (state && lacks_unnamed && (flags & O_TMPFILE) == O_TMPFILE) {
    errno = EOPNOTSUPP;
    return -1;
  }
  if (fails(Call::open, is_for_writing(flags) && !is_special(path))) return -1;
  return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
}

mode_t mode_of(int flags, va_list arguments) {
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return has_mode ? static_cast<mode_t>(va_arg(arguments, unsigned)) : 0;
}

template <class Write>
ssize_t written(int descriptor, size_t bytes, Write write_first) {
  if (!is_counted(descriptor)) return write_first(bytes);
  const Verdict verdict = next_call(Call::write);
  if (verdict == Verdict::pass) return write_first(bytes);
  return verdict == Verdict::shorten && bytes > 1 ? write_first(bytes / 2) : -1;
}

}  // namespace

extern "C" {

#define OPEN(name)                                 \
  int name(const char* path, int flags, ...) {     \
    va_list arguments;                             \
    va_start(arguments, flags);                    \
    const mode_t mode = mode_of(flags, arguments); \
    va_end(arguments);                             \
    return opened(AT_FDCWD, path, flags, mode);    \
  }
#define OPENAT(name)                                       \
  int name(int folder, const char* path, int flags, ...) { \
    va_list arguments;                                     \
    va_start(arguments, flags);                            \
    const mode_t mode = mode_of(flags, arguments);         \
    va_end(arguments);                                     \
    return opened(folder, path, flags, mode);              \
  }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int descriptor, const void* data, size_t bytes) {
  return written(descriptor, bytes, [&](size_t count) { return syscall(SYS_write, descriptor, data, count); });
}

ssize_t pwrite(int descriptor, const void* data, size_t bytes, off_t offset) {
  return written(descriptor, bytes,
                 [&](size_t count) { return syscall(SYS_pwrite64, descriptor, data, count, offset); });
}

ssize_t pwrite64(int descriptor, const void* data, size_t bytes, off64_t offset) {
  return pwrite(descriptor, data, bytes, offset);
}

ssize_t writev(int descriptor, const struct iovec* parts, int count) {
  return fails(Call::write, is_counted(descriptor)) ? -1 : syscall(SYS_writev, descriptor, parts, count);
}

int fsync(int descriptor) {
  return fails(Call::sync, is_counted(descriptor)) ? -1 : static_cast<int>(syscall(SYS_fsync, descriptor));
}

int fdatasync(int descriptor) {
  return fails(Call::sync, is_counted(descriptor)) ? -1 : static_cast<int>(syscall(SYS_fdatasync, descriptor));
}

int ftruncate(int descriptor, off_t length) noexcept {
  return fails(Call::truncate, is_counted(descriptor)) ? -1
                                                       : static_cast<int>(syscall(SYS_ftruncate, descriptor, length));
}

int ftruncate64(int descriptor, off64_t length) noexcept { return ftruncate(descriptor, length); }

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  return rename_fails(to_folder, to) ? -1
                                     : static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, 0));
}

int rename(const char* from, const char* to) noexcept { return renameat(AT_FDCWD, from, AT_FDCWD, to); }

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  return rename_fails(to_folder, to)
             ? -1
             : static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
  return fails(Call::link) ? -1 : static_cast<int>(syscall(SYS_linkat, from_folder, from, to_folder, to, flags));
}

int link(const char* from, const char* to) noexcept { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

// As on Linux, a close that fails still closes the descriptor.
int close(int descriptor) {
  const int flags = is_counted(descriptor) ? fcntl(descriptor, F_GETFL) : -1;
  const bool failed = fails(Call::close, flags >= 0 && is_for_writing(flags));
  const long closed = syscall(SYS_close, descriptor);
  if (!failed) return static_cast<int>(closed);
  errno = fail_errno;
  return -1;
}

}  // extern "C"
