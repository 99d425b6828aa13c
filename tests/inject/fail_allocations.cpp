// LD_PRELOAD library for tools/fail-allocations: makes chosen allocations fail. It covers malloc, calloc, realloc, the
// aligned variants, anonymous mmap and pthread_create; operator new and the loader allocate through malloc.
//   STROBE_FAIL_FIRST  number of the first allocation that fails, counted from 1; 0 or unset: none fails
//   STROBE_FAIL_COUNT  number of consecutive allocations that fail; default 1
//   STROBE_FAIL_STATE  a file of at least sizeof(State) bytes that receives the counts
// Counting starts at main(), or at strobe_count_allocations(1) if the program defines strobe_counts_itself. A dlopen
// counts as one allocation. Allocations of the loader and of library constructors inside dlopen do not count, because
// libgfortran, which OpenBLAS needs, ends the process if malloc fails.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* pointer, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
extern char strobe_counts_itself __attribute__((weak));
}

namespace {

// The file of STROBE_FAIL_STATE, which tools/fail-allocations reads: three 64-bit integers.
struct State {
  std::atomic<std::int64_t> allocations;   // counted so far
  std::atomic<std::int64_t> failures;      // injected so far
  std::atomic<std::int64_t> failed_bytes;  // requested by the first one that failed
};

State own_state;
State* state = &own_state;
std::int64_t first_failure = 0, failure_count = 1;
std::atomic<bool> counting{false};
thread_local bool loading = false;  // inside dlopen

bool must_fail(std::size_t bytes) {
  if (loading || !counting.load(std::memory_order_relaxed)) return false;
  const std::int64_t number = ++state->allocations;
  if (first_failure == 0 || number < first_failure || number >= first_failure + failure_count) return false;
  if (state->failures++ == 0) state->failed_bytes = static_cast<std::int64_t>(bytes);
  return true;
}

void* no_memory() {
  errno = ENOMEM;
  return nullptr;
}

std::int64_t number_from(const char* variable, std::int64_t fallback) {
  const char* const text = getenv(variable);
  return text ? strtoll(text, nullptr, 10) : fallback;
}

void* map_pages(void* address, std::size_t bytes, int protection, int flags, int file, std::int64_t offset) {
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}

__attribute__((constructor)) void read_environment() {
  first_failure = number_from("STROBE_FAIL_FIRST", 0);
  failure_count = number_from("STROBE_FAIL_COUNT", 1);
  const char* const path = getenv("STROBE_FAIL_STATE");
  const int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (file < 0) return;
  void* const shared = map_pages(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (shared != MAP_FAILED) state = static_cast<State*>(shared);
  close(file);
}

using Main = int (*)(int, char**, char**);
Main program_main = nullptr;

int counted_main(int count, char** words, char** environment) {
  if (!dlsym(RTLD_DEFAULT, "strobe_counts_itself")) counting = true;
  return program_main(count, words, environment);
}

template <class Function>
Function* next_of(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

void strobe_count_allocations(int on) { counting = on != 0; }

int __libc_start_main(Main main, int count, char** words, void (*init)(), void (*fini)(), void (*rtld_fini)(),
                      void* stack_end) {
  program_main = main;
  return next_of<int(Main, int, char**, void (*)(), void (*)(), void (*)(), void*)>("__libc_start_main")(
      counted_main, count, words, init, fini, rtld_fini, stack_end);
}

void* malloc(std::size_t bytes) { return must_fail(bytes) ? no_memory() : __libc_malloc(bytes); }

void* calloc(std::size_t count, std::size_t bytes) {
  return must_fail(count * bytes) ? no_memory() : __libc_calloc(count, bytes);
}

void* realloc(void* pointer, std::size_t bytes) {
  return must_fail(bytes) ? no_memory() : __libc_realloc(pointer, bytes);
}

void* memalign(std::size_t alignment, std::size_t bytes) {
  return must_fail(bytes) ? no_memory() : __libc_memalign(alignment, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void** pointer, std::size_t alignment, std::size_t bytes) {
  void* const memory = memalign(alignment, bytes);
  if (!memory) return ENOMEM;
  *pointer = memory;
  return 0;
}

void* mmap(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) {
  if ((flags & MAP_ANONYMOUS) != 0 && must_fail(bytes)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return map_pages(address, bytes, protection, flags, file, offset);
}

void* mmap64(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) {
  return mmap(address, bytes, protection, flags, file, offset);
}

void* dlopen(const char* file, int mode) {
  if (must_fail(0)) return nullptr;
  static const auto real = next_of<void*(const char*, int)>("dlopen");
  const bool outer = loading;
  loading = true;
  void* const handle = real(file, mode);
  loading = outer;
  return handle;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  if (must_fail(0)) return EAGAIN;
  static const auto real = next_of<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  return real(thread, attributes, body, argument);
}

}  // extern "C"
