// Prepares mpirun: folders, environment, command line. The preloaded library is embedded in this program, so that a
// copy of the program works without other files.
#include "cli/launch/mpirun.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>
#include <string>
#include <string_view>

#include "cli/launch/socket.h"
#include "comm/world.h"
#include "core/counted.h"
#include "core/fail.h"
#include "core/file_names.h"
#include "core/printable.h"
#include "core/write_all.h"
#include "process/spawn.h"

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
namespace {

// Returns true if a process may read the memory of its child (process_vm_readv), as Open MPI's ranks read each other's.
// Containers often forbid it.
bool single_copy_works() {
  static volatile int value = 42;  // at the same address in the child
  Pipe ready;
  const pid_t child = fork_child(SIGKILL, [&] {
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    static_cast<void>(!write(ready.write.get(), "r", 1));
    for (;;) pause();
  });
  char byte = 0;
  static_cast<void>(!read(ready.read.get(), &byte, 1));
  int copy = 0;
  const iovec here{.iov_base = &copy, .iov_len = sizeof(copy)};
  const iovec there{.iov_base = const_cast<int*>(&value), .iov_len = sizeof(copy)};
  const bool works = process_vm_readv(child, &here, 1, &there, 1, 0) == sizeof(copy) && copy == 42;
  kill(child, SIGKILL);
  wait_for(child);
  return works;
}

constexpr std::string_view kPrefix = "strobe-launch-";
constexpr std::size_t kRandomDigits = 6;                                     // length of mkdtemp's random suffix
constexpr std::size_t kSocketName = 1 + kPrefix.size() + kRandomDigits + 7;  // length of "/strobe-launch-XXXXXX/socket"

// Returns the locked folder's descriptor, or -1 if it is gone, another user's, a link, or locked by another process.
int lock_folder(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return -1;
  struct stat opened {
  }, named{};
  const bool ours = fstat(descriptor, &opened) == 0 && opened.st_uid == geteuid() && (opened.st_mode & 077) == 0;
  // Another process may remove the folder between open and flock.
  const bool locked = ours && flock(descriptor, LOCK_EX | LOCK_NB) == 0 && lstat(path.c_str(), &named) == 0 &&
                      named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
  if (locked) return descriptor;
  const int error = errno;
  close(descriptor);
  errno = error;
  return -1;
}

// Tries three times, since processes of the job that are ending may still add or remove files.
void remove_folder(const std::filesystem::path& path) {
  std::error_code error;
  for (int tries = 0; tries < 3; ++tries) {
    std::filesystem::remove_all(path, error);
    if (!error) return;
  }
}

// Returns true if every file in the folder belongs to a job. Other files may be the user's.
bool holds_only_job_files(const std::filesystem::path& path) {
  std::error_code error;
  for (const std::string& name : file_names(path.string(), error)) {
    const auto begins = [&](std::string_view text) { return name.starts_with(text); };
    if (name != "socket" && !begins("ompi.") && !begins("pmix") && !begins("vader_segment.") && !begins(kPrefix))
      return false;
  }
  return !error;
}

bool is_private_folder(const char* path) {
  struct stat status {};
  return stat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
         (status.st_mode & 077) == 0;
}

}  // namespace

std::filesystem::path find_mpirun() {
  const char* const path = getenv("PATH");
  std::istringstream folders(path ? path : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::filesystem::path file = std::filesystem::path(folder.empty() ? "." : folder) / "mpirun";
    struct stat status {};
    if (stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) && access(file.c_str(), X_OK) == 0) return file;
  }
  fail(ErrorCode::unsupported, "launch: no mpirun in PATH (Debian: openmpi-bin)");
}

void check_descriptor_limit(int ranks) {
  constexpr rlim_t kForTheJob = 32, kPerRank = 5;  // descriptors; mpirun needs most of them and hangs if they run out
  const rlim_t needed = kForTheJob + kPerRank * static_cast<rlim_t>(ranks);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  fail(ErrorCode::runtime, "launch: {} need {} file descriptors, but the limit is {}; raise it with ulimit -n",
       counted(ranks, "rank"), needed, limit.rlim_cur);
}

std::vector<std::string> mpirun_words(const Job& job, const MpirunSettings& settings) {
  std::vector<std::string> words{settings.program.string(),
                                 "--allow-run-as-root",
                                 "--oversubscribe",
                                 "--bind-to",
                                 "none",
                                 "--enable-recovery",  // the launcher handles lost ranks
                                 "-q"};
  const auto set = [&](const char* name, const std::string& value) {
    words.insert(words.end(), {"--mca", name, value});
  };
  set("plm", "isolated");  // this host only: no ssh, no batch system
  set("ras", "^slurm,tm,gridengine");
  set("mpi_yield_when_idle", "1");  // waiting ranks yield their core
  set("pml", "ob1");                // shared memory only: ranks have no network sockets
  set("btl", "self,vader");
  set("oob_tcp_if_include", "lo");
  set("orte_tmpdir_base", settings.sessions.string());
  set("btl_vader_backing_directory", settings.shared_memory.string());
  if (!single_copy_works()) set("btl_vader_single_copy_mechanism", "none");
  words.insert(words.end(), {"-n", std::to_string(job.ranks), this_program().string(), "launch",
                             fmt::format("--{}={}", kRankFlag, settings.socket.string()),
                             job.output == RankOutput::prefixed ? "--prefix=on" : "--prefix=off", "--"});
  words.insert(words.end(), job.command.begin(), job.command.end());
  return words;
}

void set_mpirun_environment(const Job& job, const MpirunSettings& settings) {
  setenv("STROBE_JOB", job.id.c_str(), 1);
  setenv("STROBE_RANKS", std::to_string(job.ranks).c_str(), 1);
  setenv("STROBE_RESTARTS", std::to_string(job.restarts).c_str(), 1);
  setenv(comm::kTokenVariable, settings.rank_token.c_str(), 1);
  setenv(kLaunchToken, settings.launch_token.c_str(), 1);
  setenv("LD_PRELOAD", settings.preload.c_str(), 1);
  unsetenv(comm::kListenerVariable);
  if (settings.master_port == 0) return;
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", std::to_string(settings.master_port).c_str(), 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 0);
}

LockedFolder::LockedFolder(const std::filesystem::path& base) {
  constexpr int kTries = 10;
  for (int i = 0; i < kTries && lock_ < 0; ++i) {
    std::string name = (base / kPrefix).string() + std::string(kRandomDigits, 'X');
    if (!mkdtemp(name.data()))
      fail(ErrorCode::runtime, "launch: cannot create a folder in {}: {}", printable_value(base.string()),
           std::strerror(errno));
    lock_ = lock_folder(name);
    const int error = errno;
    if (lock_ >= 0) path_ = name;
    if (lock_ >= 0 || error == ENOENT) continue;  // another launcher removed the folder before it was locked
    remove_folder(name);
    if (error == EWOULDBLOCK) continue;
    fail(ErrorCode::runtime, "launch: {}: {}", printable_value(name), std::strerror(error));
  }
  if (lock_ < 0) fail(ErrorCode::runtime, "launch: cannot lock a folder in {}", printable_value(base.string()));
}

LockedFolder::~LockedFolder() {
  remove_folder(path_);
  close(lock_);
}

void remove_dead_folders(const std::filesystem::path& base) {
  std::error_code ignored;
  for (const std::string& name : file_names(base.string(), ignored)) {
    if (!name.starts_with(kPrefix) || name.size() != kPrefix.size() + kRandomDigits) continue;
    const std::filesystem::path path = base / name;
    const int lock = lock_folder(path.string());
    if (lock < 0) continue;
    if (holds_only_job_files(path)) remove_folder(path);
    close(lock);
  }
}

std::filesystem::path job_folder_base() {
  const char* const runtime = getenv("XDG_RUNTIME_DIR");
  const char* const temporary = getenv("TMPDIR");
  std::string tried;
  for (const char* base : {runtime && is_private_folder(runtime) ? runtime : nullptr, temporary, "/tmp"}) {
    if (!base || base[0] != '/') continue;
    const bool fits = std::strlen(base) + kSocketName < sizeof(sockaddr_un::sun_path);
    if (fits && access(base, W_OK | X_OK) == 0) return base;
    tried += fmt::format("{}{} ({})", tried.empty() ? "" : ", ", printable(base),
                         fits ? std::strerror(errno) : "too long for a socket");
  }
  fail(ErrorCode::runtime, "launch: no folder can hold the ranks' socket: {}; set TMPDIR to a short, writable one",
       tried);
}

std::filesystem::path shared_memory_base(const std::filesystem::path& otherwise) {
  constexpr const char* kSharedMemory = "/dev/shm";
  return access(kSharedMemory, W_OK | X_OK) == 0 ? std::filesystem::path(kSharedMemory) : otherwise;
}

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
