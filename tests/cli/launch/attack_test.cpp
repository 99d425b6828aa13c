// Attacks the launcher's socket during a job of two ranks, as another user and as this user. Attackers must receive
// nothing, and the job must end as without an attack.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "cli/background.h"
#include "cli/run_program.h"

namespace strobe::test {
namespace {

constexpr uid_t kStranger = 65534;

// Returns the sockets in /proc/net/unix (readable by every user) whose name contains one of the texts.
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

// Returns a connected descriptor, or -1 if the connection is refused.
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

// Returns true if the other end sends a byte or a descriptor before it closes.
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
  const ssize_t got = recvmsg(descriptor, &message, 0);  // -1 if the launcher closed before it read the message
  return got > 0 || (got == 0 && CMSG_FIRSTHDR(&message));
}

// Returns true if the other end closes a silent connection within 2 s. The launcher waits 5 s for a token.
bool is_closed_at_once(int descriptor) {
  pollfd entry{.fd = descriptor, .events = POLLIN, .revents = 0};
  char byte;
  return poll(&entry, 1, 2000) > 0 && recv(descriptor, &byte, 1, 0) <= 0;
}

struct Job {
  Scratch scratch;
  pid_t victim = fork_victim();
  pid_t launcher = -1;

  Job() {
    std::ofstream(scratch.path() / "job.log") << "an earlier line\n";
    // Other users may enter the scratch folder, so only the launcher's own checks keep them out.
    std::filesystem::permissions(scratch.path(), std::filesystem::perms(0755));
  }
  ~Job() {
    kill(victim, SIGKILL);
    waitpid(victim, nullptr, 0);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  static pid_t fork_victim() {  // a process group that does not belong to the job
    const pid_t child = fork();
    if (child != 0) {
      setpgid(child, child);
      return child;
    }
    setpgid(0, 0);
    for (;;) pause();
  }

  // Starts two ranks that end once the file `done` exists. `programs`: a folder to search first, e.g. for mpirun.
  void start(const std::string& programs = "") {
    std::ofstream(scratch.path() / "rank.sh") << "#!/bin/sh\necho > ready$OMPI_COMM_WORLD_RANK\n"
                                                 "until [ -e done ]; do sleep 0.02; done\necho rank ends\n";
    std::filesystem::permissions(scratch.path() / "rank.sh", std::filesystem::perms::owner_all);
    launcher = fork();
    if (launcher != 0) return;
    unsetenv("XDG_RUNTIME_DIR");
    setenv("TMPDIR", scratch.path().c_str(), 1);
    if (!programs.empty()) setenv("PATH", (programs + ":" + getenv("PATH")).c_str(), 1);
    dup2(open((scratch.path() / "job.log").c_str(), O_WRONLY | O_APPEND), STDOUT_FILENO);
    dup2(open((scratch.path() / "errors").c_str(), O_WRONLY | O_CREAT, 0666), STDERR_FILENO);
    become_program("launch -n 2 -- ./rank.sh", scratch);
  }

  bool is_ready() const {
    return becomes([&] {
      return std::filesystem::exists(scratch.path() / "ready0") && std::filesystem::exists(scratch.path() / "ready1");
    });
  }

  // Returns only sockets of this launcher, including those with abstract names (@strobe-launch-PID).
  std::vector<std::string> sockets() const {
    return sockets_with({scratch.path().string(), "strobe-launch-" + std::to_string(launcher) + "-"});
  }

  // Checks that the job ends as it would without an attack.
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

// Returns forged messages: a start message of rank 7 that names the victim as its process group, introductions with
// wrong tokens, and invalid lengths.
std::vector<std::string> hostile_messages(pid_t victim) {
  const auto bytes = [](const auto& value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  const int started[] = {0, 7, victim};
  std::string introduction(32, 'a');
  introduction += bytes(0);
  return {bytes(started), introduction, std::string(36, '\0'), "x", std::string(100000, 'y'), ""};
}

// Returns 0 if every attempt was rejected.
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

  // Runs the action in a child process as another user and returns its result.
  template <class Action>
  static int as_another_user(Action action) {
    const pid_t child = fork();
    if (child == 0) _exit(setgid(kStranger) == 0 && setuid(kStranger) == 0 ? action() : 77);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  }
};

TEST_F(LaunchAttack, AnotherUserIsRejected) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  Job job;
  job.start();
  ASSERT_TRUE(job.is_ready());
  EXPECT_FALSE(job.sockets().empty());
  const auto connections = [&] {  // the folder's mode keeps other users from the socket
    int connected = 0;
    for (const std::string& name : job.sockets()) connected += connect_to(name) >= 0;
    return connected;
  };
  EXPECT_EQ(as_another_user(connections), 0);
  EXPECT_EQ(as_another_user([&] { return attack(job); }), 0);
  job.expect_unharmed();
}

// The launcher also checks the user id. Here the mode of the folder lets the attacker connect.
TEST_F(LaunchAttack, AnotherUserIsRejectedByUserId) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  Job job;
  job.start();
  ASSERT_TRUE(job.is_ready());
  for (const std::string& name : job.sockets()) {
    if (name[0] != '/') continue;
    std::filesystem::permissions(std::filesystem::path(name).parent_path(), std::filesystem::perms::all);
    std::filesystem::permissions(name, std::filesystem::perms::all);
  }
  EXPECT_EQ(as_another_user([&] { return attack(job); }), 0);
  const auto closed = [&] { return is_closed_at_once(connect_to(job.sockets().front())) ? 0 : 1; };
  EXPECT_EQ(as_another_user(closed), 0) << "the launcher waited for a token from another user";
  job.expect_unharmed();
}

TEST_F(LaunchAttack, TheSameUserWithoutTheTokenIsRejected) {
  Job job;
  job.start();
  ASSERT_TRUE(job.is_ready());
  EXPECT_EQ(attack(job), 0);
  job.expect_unharmed();
}

// Another process of this user steals the token before any rank connects. The launcher accepts only descendants of
// mpirun.
TEST_F(LaunchAttack, AProcessOutsideMpirunIsRejectedDespiteTheToken) {
  Job job;
  job.scratch.program("mpirun",
                      "#!/bin/sh\necho $$ > held\nuntil [ -e go ]; do sleep 0.02; done\n"
                      "PATH=${PATH#*:}\nexec mpirun \"$@\"\n");
  job.start(job.scratch.path().string());
  ASSERT_TRUE(becomes([&] { return job.scratch.read("held").ends_with('\n'); }));
  std::ifstream variables("/proc/" + std::to_string(std::stoi(job.scratch.read("held"))) + "/environ");
  const std::string name = "STROBE_LAUNCH_TOKEN=";
  std::string introduction;
  for (std::string variable; std::getline(variables, variable, '\0');)
    if (variable.starts_with(name)) introduction = variable.substr(name.size());
  ASSERT_EQ(introduction.size(), 32u);
  introduction += std::string(sizeof(int), '\0');  // rank 0
  const int descriptor = connect_to(job.sockets().front());
  EXPECT_EQ(send(descriptor, introduction.data(), introduction.size(), MSG_NOSIGNAL), 36);
  EXPECT_FALSE(receives_anything(descriptor));
  close(descriptor);
  std::ofstream(job.scratch.path() / "go") << "";
  ASSERT_TRUE(job.is_ready());
  job.expect_unharmed();
}

// mpirun starts a supervisor that has the wrong token.
TEST_F(LaunchAttack, ADescendantOfMpirunWithoutTheTokenIsRejected) {
  Job job;
  job.scratch.program("mpirun",
                      "#!/bin/sh\nPATH=${PATH#*:}\n"
                      "for word; do case $word in --as-rank=*) socket=$word; esac; done\n"
                      "LD_PRELOAD= STROBE_LAUNCH_TOKEN=00000000000000000000000000000000 OMPI_COMM_WORLD_RANK=0 "
                      "OMPI_COMM_WORLD_SIZE=2 '" STROBE_PROGRAM
                      "' launch $socket -- /bin/echo stolen 2> refused\n"
                      "exec mpirun \"$@\"\n");
  job.start(job.scratch.path().string());
  ASSERT_TRUE(job.is_ready());
  EXPECT_EQ(job.scratch.read("refused"), "strobe: launch: rank 0: the launcher does not accept this process\n");
  job.expect_unharmed();
}

// Attackers connect and send nothing while mpirun starts the ranks; the launcher still accepts the supervisors.
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
