// Strangers at the launcher's socket: another user, and this user without the job's token. A job of two ranks runs to
// its end meanwhile; nothing is received, nothing is killed, no output is lost.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "cli/background.h"
#include "cli/run_program.h"

namespace strobe::test {
namespace {

constexpr uid_t kStranger = 65534;

// Sockets in /proc/net/unix, which any user can read, whose name contains one of the texts.
std::vector<std::string> sockets_with(const std::vector<std::string>& texts) {
  std::vector<std::string> names;
  std::ifstream file("/proc/net/unix");
  for (std::string line; std::getline(file, line);) {
    const std::size_t name = line.find_first_of("@/");
    const auto is_in = [&](const std::string& text) { return line.find(text) != std::string::npos; };
    if (name != std::string::npos && std::any_of(texts.begin(), texts.end(), is_in)) names.push_back(line.substr(name));
  }
  return names;
}

// -1 where it is refused.
int connect_to(const std::string& name) {
  const int descriptor = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (name[0] == '@') address.sun_path[0] = 0;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  if (connect(descriptor, reinterpret_cast<const sockaddr*>(&address), size) == 0) return descriptor;
  close(descriptor);
  return -1;
}

// True where the other end sends a byte or a descriptor before it closes.
bool receives_anything(int descriptor) {
  char bytes[256];
  char room[CMSG_SPACE(8 * sizeof(int))];
  iovec data{.iov_base = bytes, .iov_len = sizeof(bytes)};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof(room);
  pollfd entry{.fd = descriptor, .events = POLLIN, .revents = 0};
  if (poll(&entry, 1, 2000) <= 0) return false;
  const ssize_t got = recvmsg(descriptor, &message, 0);  // -1: reset, with the hostile message unread
  return got > 0 || (got == 0 && CMSG_FIRSTHDR(&message));
}

struct Job {
  Scratch scratch;
  pid_t victim = fork_victim();
  pid_t launcher = -1;

  Job() {
    std::ofstream(scratch.path() / "job.log") << "an earlier line\n";
    std::filesystem::permissions(scratch.path(), std::filesystem::perms(0755));  // only the launcher protects itself
  }
  ~Job() {
    kill(victim, SIGKILL);
    waitpid(victim, nullptr, 0);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  static pid_t fork_victim() {  // a process group that is none of the launcher's business
    const pid_t child = fork();
    if (child != 0) {
      setpgid(child, child);
      return child;
    }
    setpgid(0, 0);
    for (;;) pause();
  }

  // Two ranks that end once the file `done` is there.
  void start() {
    std::ofstream(scratch.path() / "rank.sh") << "#!/bin/sh\necho > ready$OMPI_COMM_WORLD_RANK\n"
                                                 "until [ -e done ]; do sleep 0.02; done\necho rank ends\n";
    std::filesystem::permissions(scratch.path() / "rank.sh", std::filesystem::perms::owner_all);
    launcher = fork();
    if (launcher != 0) return;
    unsetenv("XDG_RUNTIME_DIR");
    setenv("TMPDIR", scratch.path().c_str(), 1);
    dup2(open((scratch.path() / "job.log").c_str(), O_WRONLY | O_APPEND), STDOUT_FILENO);
    dup2(open((scratch.path() / "errors").c_str(), O_WRONLY | O_CREAT, 0666), STDERR_FILENO);
    become_program("launch -n 2 -- ./rank.sh", scratch);
  }

  bool is_ready() const {
    return becomes([&] {
      return std::filesystem::exists(scratch.path() / "ready0") && std::filesystem::exists(scratch.path() / "ready1");
    });
  }

  // This launcher's only; @strobe-launch-PID was its name in the abstract namespace.
  std::vector<std::string> sockets() const {
    return sockets_with({scratch.path().string(), "strobe-launch-" + std::to_string(launcher) + "-"});
  }

  // The job ends as if there had been no attack.
  void expect_unharmed() const {
    std::ofstream(scratch.path() / "done") << "";
    int status = 0;
    waitpid(launcher, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_EQ(scratch.read("errors"), "");
    const std::string log = scratch.read("job.log");
    EXPECT_TRUE(log == "an earlier line\n[0] rank ends\n[1] rank ends\n" ||
                log == "an earlier line\n[1] rank ends\n[0] rank ends\n")
        << log;
    EXPECT_EQ(waitpid(victim, &status, WNOHANG), 0) << "an unrelated process group was killed";
  }
};

// {started, rank, process group}, which an earlier protocol believed, and introductions with false tokens.
std::vector<std::string> hostile_messages(pid_t victim) {
  const auto bytes = [](const auto& value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  const int started[] = {0, 7, victim};
  std::string introduction(32, 'a');
  introduction += bytes(0);
  return {bytes(started), introduction, std::string(36, '\0'), "x", std::string(100000, 'y'), ""};
}

// In a child of its own, which may have become another user: 0 where everything was refused.
int attack(const Job& job) {
  for (const std::string& name : job.sockets()) {
    for (const std::string& message : hostile_messages(job.victim)) {
      const int descriptor = connect_to(name);
      if (descriptor < 0) continue;
      static_cast<void>(!send(descriptor, message.data(), message.size(), MSG_NOSIGNAL));
      if (receives_anything(descriptor)) return 1;
      close(descriptor);
    }
  }
  return 0;
}

class LaunchAttack : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "no mpirun in PATH";
  }

  static int run_attack(const Job& job, bool as_another_user) {
    const pid_t child = fork();
    if (child == 0) {
      if (as_another_user && (setgid(kStranger) != 0 || setuid(kStranger) != 0)) _exit(77);
      _exit(attack(job));
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  }
};

TEST_F(LaunchAttack, AnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  Job job;
  job.start();
  ASSERT_TRUE(job.is_ready());
  EXPECT_FALSE(job.sockets().empty());
  const pid_t child = fork();
  if (child == 0) {  // the folder keeps other users from the socket
    if (setgid(kStranger) != 0 || setuid(kStranger) != 0) _exit(77);
    int connected = 0;
    for (const std::string& name : job.sockets()) connected += connect_to(name) >= 0;
    _exit(connected);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "connections: " << WEXITSTATUS(status);
  EXPECT_EQ(run_attack(job, true), 0);
  job.expect_unharmed();
}

// The user id is checked too: here the folder lets the stranger in.
TEST_F(LaunchAttack, AnotherUserIsRefusedByItsUserId) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  Job job;
  job.start();
  ASSERT_TRUE(job.is_ready());
  for (const std::string& name : job.sockets()) {
    if (name[0] != '/') continue;
    std::filesystem::permissions(std::filesystem::path(name).parent_path(), std::filesystem::perms::all);
    std::filesystem::permissions(name, std::filesystem::perms::all);
  }
  EXPECT_EQ(run_attack(job, true), 0);
  job.expect_unharmed();
}

TEST_F(LaunchAttack, TheSameUserWithoutTheTokenIsRefused) {
  Job job;
  job.start();
  ASSERT_TRUE(job.is_ready());
  EXPECT_EQ(run_attack(job, false), 0);
  job.expect_unharmed();
}

// Connected while mpirun starts the ranks: the launcher accepts the supervisors all the same.
TEST_F(LaunchAttack, SilentConnectionsDelayNothing) {
  Job job;
  job.start();
  ASSERT_TRUE(becomes([&] { return !job.sockets().empty(); }));
  std::vector<int> silent;
  for (int i = 0; i < 50; ++i) silent.push_back(connect_to(job.sockets().front()));
  ASSERT_TRUE(job.is_ready());
  job.expect_unharmed();
  for (const int descriptor : silent) close(descriptor);
}

}  // namespace
}  // namespace strobe::test
