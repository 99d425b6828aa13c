#include "cli/launch/mpirun.h"

#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <sstream>

#include "cli/launch/socket.h"
#include "comm/world.h"
#include "core/counted.h"
#include "core/fail.h"
#include "process/spawn.h"

namespace strobe::cli {
namespace {

// Reads a child's memory, as Open MPI's ranks read each other's. Containers often forbid it.
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
  constexpr rlim_t kForTheJob = 32, kPerRank = 5;  // mpirun needs the most, and hangs with less
  const rlim_t needed = kForTheJob + kPerRank * static_cast<rlim_t>(ranks);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  fail(ErrorCode::runtime, "launch: {} need {} file descriptors and the limit is {}; raise it with ulimit -n",
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
  set("mpi_yield_when_idle", "1");  // ranks that wait leave their core to others
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

}  // namespace strobe::cli
