// Tests that a job of `strobe launch` is not open to other users: where its TCP sockets listen, who may use
// MASTER_PORT, and that no files of Open MPI remain.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <set>

#include "cli/background.h"
#include "cli/run_program.h"
#include "comm/engine.h"
#include "core/descriptor.h"

namespace strobe::test {
namespace {

std::string link_of(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::read_symlink(path, error).string();
}

int parent_of(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t end = line.rfind(')');
  if (end == std::string::npos) return 0;
  return std::atoi(line.c_str() + end + 3);
}

std::vector<int> descendants_of(int ancestor) {
  std::vector<int> found{ancestor};
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const int process = std::atoi(entry.path().filename().c_str());
      if (process > 0 && parent_of(process) == found[i]) found.push_back(process);
    }
  }
  return found;
}

std::string name_of(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

std::set<std::string> socket_inodes_of(const std::vector<int>& processes) {
  std::set<std::string> inodes;
  for (const int process : processes) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd", error)) {
      const std::string target = link_of(entry.path());
      if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
    }
  }
  return inodes;
}

// Returns the local addresses of these processes' listening TCP sockets, in the format of /proc/net/tcp.
std::vector<std::string> listening_addresses(const std::vector<int>& processes) {
  const std::set<std::string> inodes = socket_inodes_of(processes);
  std::vector<std::string> addresses;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      const std::vector<std::string> words = words_in(line);
      if (words.size() > 9 && words[3] == "0A" && inodes.contains(words[9])) addresses.push_back(words[1]);
    }
  }
  return addresses;
}

bool is_loopback(const std::string& address) {
  return address.starts_with("0100007F:") || address.starts_with("00000000000000000000000001000000:");
}

// Returns true if the other end of a connection to this address closes it within 2 s.
bool is_refused_at(const std::string& address) {
  const auto port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.find(':') + 1), nullptr, 16)));
  const bool is_v6 = address.find(':') > 8;
  sockaddr_in v4{.sin_family = AF_INET, .sin_port = port, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6, v6.sin6_port = port, v6.sin6_addr = in6addr_loopback;
  const auto* to = is_v6 ? reinterpret_cast<const sockaddr*>(&v6) : reinterpret_cast<const sockaddr*>(&v4);
  const Descriptor connection(socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(connection.get(), to, is_v6 ? sizeof(v6) : sizeof(v4)) != 0) return false;
  pollfd entry{.fd = connection.get(), .events = POLLIN, .revents = 0};
  char byte;
  return poll(&entry, 1, 2000) > 0 && recv(connection.get(), &byte, 1, 0) <= 0;
}

int count_with(const std::filesystem::path& folder, const std::string& text) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    count += entry.path().filename().string().find(text) != std::string::npos;
  return count;
}

std::string shared_memory_folder_of(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/environ");
  const std::string name = "OMPI_MCA_btl_vader_backing_directory=";
  for (std::string variable; std::getline(file, variable, '\0');)
    if (variable.starts_with(name)) return variable.substr(name.size());
  return "";
}

class LaunchExposure : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "no mpirun in PATH";
    if (comm::why_no_mpi()) GTEST_SKIP() << "no MPI in this build";
  }

  // Starts the program with the scratch folder as TMPDIR, so all files left there belong to this job.
  pid_t start(const std::string& arguments) {
    const pid_t child = fork();
    if (child != 0) return child;
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("OMPI_MCA_orte_tmpdir_base");
    setenv("TMPDIR", scratch_.path().c_str(), 1);
    const int nowhere = open("/dev/null", O_RDWR);
    for (const int stream : {0, 1}) dup2(nowhere, stream);
    dup2(open((scratch_.path() / "errors").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666), STDERR_FILENO);
    become_program(arguments, scratch_);
  }

  // Starts collectives that take about a minute.
  pid_t start_collectives(int ranks) {
    const pid_t launcher = start("launch -n " + std::to_string(ranks) +
                                 " -- comm --operations broadcast --sizes 1K,100M --repeats 1000 --output out.jsonl");
    EXPECT_TRUE(becomes([&] { return scratch_.read("out.jsonl").find("ok") != std::string::npos; }));
    return launcher;
  }

  static int wait(pid_t process) {
    int status = 0;
    waitpid(process, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  Scratch scratch_;
};

TEST_F(LaunchExposure, ListensOnLoopbackOnly) {
  const pid_t launcher = start_collectives(3);
  const std::vector<int> processes = descendants_of(launcher);
  EXPECT_GE(processes.size(), 8u);  // the launcher, mpirun, three supervisors and three ranks
  const std::vector<std::string> addresses = listening_addresses(processes);
  EXPECT_FALSE(addresses.empty());
  for (const std::string& address : addresses) EXPECT_TRUE(is_loopback(address)) << address;
  kill(launcher, SIGINT);
  EXPECT_EQ(wait(launcher), 128 + SIGINT);
}

// mpirun trusts the user id that a message contains, so the launcher must prevent connections of other users.
TEST_F(LaunchExposure, MpirunAcceptsNoConnectionOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  std::ofstream(scratch_.path() / "rank.sh") << "#!/bin/sh\necho > ready\nuntil [ -e done ]; do sleep 0.05; done\n";
  std::filesystem::permissions(scratch_.path() / "rank.sh", std::filesystem::perms::owner_all);
  const pid_t launcher = start("launch -n 1 -- ./rank.sh");
  ASSERT_TRUE(becomes([&] { return std::filesystem::exists(scratch_.path() / "ready"); }));
  std::vector<int> mpiruns = descendants_of(launcher);
  std::erase_if(mpiruns, [](int process) { return name_of(process) != "mpirun" && name_of(process) != "orterun"; });
  const std::vector<std::string> addresses = listening_addresses(mpiruns);
  EXPECT_FALSE(addresses.empty());
  const pid_t stranger = fork();
  if (stranger == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(77);
    _exit(std::all_of(addresses.begin(), addresses.end(), is_refused_at) ? 0 : 1);
  }
  EXPECT_EQ(wait(stranger), 0);
  std::ofstream(scratch_.path() / "done") << "";
  EXPECT_EQ(wait(launcher), 0) << scratch_.read("errors");
}

TEST_F(LaunchExposure, LeavesNoFileIfMpirunIsKilled) {
  const int before = count_with("/dev/shm", "vader_segment");
  const pid_t launcher = start_collectives(2);
  EXPECT_EQ(count_with(scratch_.path(), "strobe-launch-"), 1);
  for (const int process : descendants_of(launcher)) {
    if (name_of(process) == "mpirun" || name_of(process) == "orterun") kill(process, SIGKILL);
  }
  EXPECT_EQ(wait(launcher), 3);
  const std::string errors = scratch_.read("errors");
  EXPECT_NE(errors.find("strobe: launch: mpirun was killed by signal 9 (Killed)\n"), std::string::npos) << errors;
  EXPECT_EQ(count_with(scratch_.path(), "strobe-launch-"), 0);
  EXPECT_LE(count_with("/dev/shm", "vader_segment"), before);
}

// A killed launcher cannot clean up; the same user's next launcher does.
TEST_F(LaunchExposure, RemovesTheFoldersOfAKilledLauncher) {
  const pid_t launcher = start_collectives(2);
  const std::vector<int> processes = descendants_of(launcher);
  const std::string shared = shared_memory_folder_of(processes.back());
  EXPECT_TRUE(std::filesystem::exists(shared)) << shared;
  kill(launcher, SIGKILL);
  EXPECT_EQ(wait(launcher), 128 + SIGKILL);
  for (const int process : processes) {  // mpirun removes some of its files when it exits
    EXPECT_TRUE(becomes([&] { return !std::filesystem::exists("/proc/" + std::to_string(process)); }));
  }
  EXPECT_EQ(count_with(scratch_.path(), "strobe-launch-"), 1);
  const std::filesystem::path own = scratch_.path() / "strobe-launch-backup";  // the user made this one
  std::filesystem::create_directory(own);
  std::filesystem::permissions(own, std::filesystem::perms::owner_all);
  std::ofstream(own / "notes") << "mine";
  EXPECT_EQ(wait(start("launch -n 1 -- /bin/true")), 0);
  EXPECT_EQ(count_with(scratch_.path(), "strobe-launch-"), 1);
  EXPECT_TRUE(std::filesystem::exists(own / "notes"));
  EXPECT_FALSE(std::filesystem::exists(shared)) << shared;
}

TEST_F(LaunchExposure, HasAPrivateFolder) {
  const pid_t sleeper = start("launch -n 1 -- /bin/sleep 100");
  std::filesystem::path folder;
  ASSERT_TRUE(becomes([&] {
    for (const auto& entry : std::filesystem::directory_iterator(scratch_.path()))
      if (entry.path().filename().string().starts_with("strobe-launch-")) folder = entry.path();
    return !folder.empty();
  }));
  EXPECT_EQ(std::filesystem::status(folder).permissions(), std::filesystem::perms::owner_all);
  kill(sleeper, SIGTERM);
  EXPECT_EQ(wait(sleeper), 128 + SIGTERM);
}

// Rank 0 inherits the socket bound to MASTER_PORT, so no other process can take the port.
TEST_F(LaunchExposure, ReservesMasterPortFromTheStart) {
  std::ofstream(scratch_.path() / "rank.sh") << "#!/bin/sh\n[ $OMPI_COMM_WORLD_RANK = 0 ] || exit 0\n"
                                                "readlink /proc/self/fd/$STROBE_LISTENER > socket\n"
                                                "echo $MASTER_ADDR $MASTER_PORT > master\n"
                                                "cat /proc/net/tcp > table\n";
  std::filesystem::permissions(scratch_.path() / "rank.sh", std::filesystem::perms::owner_all);
  EXPECT_EQ(wait(start("launch -n 2 -- ./rank.sh")), 0) << scratch_.read("errors");
  const std::vector<std::string> master = words_in(scratch_.read("master"));
  ASSERT_EQ(master.size(), 2u);
  EXPECT_EQ(master[0], "127.0.0.1");
  char address[32];
  snprintf(address, sizeof(address), "0100007F:%04X", std::atoi(master[1].c_str()));
  std::istringstream table(scratch_.read("table"));
  std::string inode;
  for (std::string line; std::getline(table, line);) {
    const std::vector<std::string> words = words_in(line);
    if (words.size() > 9 && words[1] == address && words[3] == "0A") inode = words[9];
  }
  EXPECT_EQ(scratch_.read("socket"), "socket:[" + inode + "]\n");
}

}  // namespace
}  // namespace strobe::test
