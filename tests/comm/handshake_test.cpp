// Tests the ranks' handshake against attacks: unauthenticated connections to rank 0's port, a process that poses as
// rank 0, and ranks that send invalid messages.
#include "comm/handshake.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "comm/peers.h"
#include "core/clock.h"
#include "core/token.h"
#include "strobe/error.h"

namespace strobe::test {
namespace {

using comm::Channel;
using comm::Listener;
using comm::Peers;

constexpr comm::Limits kHandshakeLimits{.silence = 60, .operation = 60};

comm::World handshake_world(int rank, int size, const std::string& token = "the token of this job") {
  comm::World world;
  world.rank = rank;
  world.size = size;
  world.host = "host" + std::to_string(rank);
  world.token = token;
  return world;
}

int connect_raw(int port) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return descriptor;
}

pid_t start_member(const comm::World& world, int port, const std::function<int(Peers&)>& act) {
  const pid_t child = fork();
  if (child != 0) return child;
  try {
    Peers peers(world, {"build", "model"}, kHandshakeLimits, "127.0.0.1", port);
    _exit(act(peers));
  } catch (const Error& error) {
    _exit(error.code() == ErrorCode::invalid_argument ? 2 : 3);
  }
}

int end_of_member(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(Handshake, UnauthenticatedConnectionsDoNotDisturbRankZero) {
  Listener listener(comm::kLoopback);
  const std::string nonce(comm::kNonceDigits, 'a'), proof(comm::kProofDigits, 'b');
  const std::string hostile[] = {
      "{\"rank\":\"x\"}\n",
      "{\"rank\":1}\n",
      "no json\n",
      std::string(100000, 'x'),
      "{\"nonce\":\"" + nonce + "\"}\n",
      "{\"nonce\":\"" + nonce + "\"}\n{\"proof\":\"" + proof +
          "\",\"rank\":1,\"size\":2,\"host\":\"h\",\"build\":\"build\",\"fingerprint\":\"model\",\"facts_digest\":\"" +
          proof + "\"}\n"};
  std::vector<int> strangers;
  for (const std::string& text : hostile) {
    strangers.push_back(connect_raw(listener.port()));
    static_cast<void>(!send(strangers.back(), text.data(), text.size(), MSG_NOSIGNAL));
  }
  for (int i = 0; i < 50; ++i) strangers.push_back(connect_raw(listener.port()));  // these send nothing
  const pid_t member =
      start_member(handshake_world(1, 2), listener.port(), [](Peers& peers) { return peers.leave() ? 0 : 1; });
  const double begin = now_seconds();
  Peers peers(handshake_world(0, 2), {"build", "model"}, kHandshakeLimits, listener, "");
  EXPECT_LT(now_seconds() - begin, 5);  // rank 0 waits for none of the 56 unauthenticated connections
  EXPECT_TRUE(peers.leave());
  EXPECT_EQ(end_of_member(member), 0);
  for (const int descriptor : strangers) close(descriptor);
}

TEST(Handshake, AMemberWithAnotherTokenNeverJoins) {
  Listener listener(comm::kLoopback);
  const pid_t member =
      start_member(handshake_world(1, 2, "another token, as long"), listener.port(), [](Peers&) { return 0; });
  try {
    Peers peers(handshake_world(0, 2), {"build", "model"}, {.silence = 1, .operation = 0.5}, listener, "");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "rank 1 did not connect within 0.5 s");
  }
  kill(member, SIGKILL);
  EXPECT_NE(end_of_member(member), 0);
}

// A thread answers like rank 0 but lacks the token. The joining rank must send only its nonce, and fail with the
// reason.
TEST(Handshake, AFalseRankZeroIsRejected) {
  Listener listener(comm::kLoopback);
  std::string sent;
  std::thread impostor([&] {
    std::vector<Channel> channels;
    for (const double until = now_seconds() + 1.5; now_seconds() < until; usleep(2'000)) {
      if (auto channel = listener.accept(comm::kLongestLine)) channels.push_back(std::move(*channel));
      for (Channel& channel : channels) {
        const auto message = channel.next();
        if (!message) continue;
        sent += message->dump();
        channel.send(comm::json_of(comm::Challenge{std::string(32, 'a'), std::string(64, 'b')}));
        channel.send(Json::parse(R"({"hosts":["a"],"shared":""})"));
      }
    }
  });
  try {
    Peers peers(handshake_world(2, 3), {"build", "secret model"}, {.silence = 0.5, .operation = 60}, "127.0.0.1",
                listener.port());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::runtime);
    EXPECT_NE(std::string(error.what()).find("is not rank 0 of this job: it does not know STROBE_TOKEN"),
              std::string::npos)
        << error.what();
  }
  impostor.join();
  EXPECT_EQ(sent.find("proof"), std::string::npos) << sent;
  EXPECT_EQ(sent.find("secret"), std::string::npos) << sent;
}

// Returns the error of rank 0 after a connected rank sends this line.
std::string failure_after(const std::string& line) {
  Listener listener(comm::kLoopback);
  const pid_t member = fork();
  if (member == 0) {
    Peers peers(handshake_world(1, 2), {}, kHandshakeLimits, "127.0.0.1", listener.port());
    // Finds the descriptor of the only connected socket of this process.
    for (int descriptor = 64; descriptor > 2; --descriptor) {
      sockaddr_in peer{};
      socklen_t size = sizeof(peer);
      if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
      static_cast<void>(!send(descriptor, line.data(), line.size(), MSG_NOSIGNAL));
      break;
    }
    for (;;) pause();
  }
  Peers peers(handshake_world(0, 2), {}, kHandshakeLimits, listener, "");
  const double until = now_seconds() + 60;
  while (!peers.failed() && now_seconds() < until) usleep(1000);
  const std::string failure = peers.failure();
  kill(member, SIGKILL);
  end_of_member(member);
  return failure;
}

TEST(Handshake, AMalformedMessageFailsThatRank) {
  for (const char* line : {"{\"calls\":\"x\"}\n", "{\"failed\":1}\n", "{\"calls\":1}\n",
                           "{\"calls\":[1,2],\"left\":true}\n", "{\"closed\":true,\n", "\n"})
    EXPECT_EQ(failure_after(line), "rank 1 on host1 sent a malformed message") << line;
}

TEST(Handshake, AShortHostListIsMalformed) {
  Listener listener(comm::kLoopback);
  std::thread rank_0([&] {
    const comm::World world = handshake_world(0, 3);
    comm::Reception reception(listener, world);
    for (comm::Guest& guest : reception.wait(now_seconds() + 60)) {
      guest.channel.send(Json::parse(R"({"hosts":["a"],"shared":""})"));
      guest.channel.next(now_seconds() + 60);
    }
  });
  try {
    Peers peers(handshake_world(2, 3), {}, kHandshakeLimits, "127.0.0.1", listener.port());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "rank 0 sent a malformed message");
    EXPECT_EQ(error.code(), ErrorCode::runtime);
  }
  rank_0.join();
}

TEST(Listener, AdoptsOnlyASocketThatListensOnThePort) {
  Listener held(comm::kLoopback);
  EXPECT_THROW(Listener::adopt(held.descriptor(), held.port() + 1), Error);
  EXPECT_THROW(Listener::adopt(0, held.port()), Error);
  const int copy = dup(held.descriptor());
  EXPECT_EQ(Listener::adopt(copy, held.port()).port(), held.port());
}

// If rank 0 listens at another address only, ranks must not try loopback: another user may listen there on the same
// port.
TEST(Listener, IsReachedOnLoopbackOnlyIfItListensThere) {
  using comm::From;
  for (const From from : {From::this_host, From::other_hosts}) {
    EXPECT_EQ(comm::addresses_of_listener("192.0.2.7", from), "192.0.2.7");
    EXPECT_EQ(comm::addresses_of_listener(comm::kLoopback, from), comm::kLoopback);
  }
  EXPECT_TRUE(comm::addresses_of_listener(comm::kAllInterfaces, From::this_host).starts_with(comm::kLoopback));
  EXPECT_EQ(comm::addresses_of_listener(comm::kAllInterfaces, From::other_hosts).find("127."), std::string::npos);
}

TEST(Listener, ListensOnTheChosenInterface) {
  EXPECT_EQ(comm::address_of_interface("lo"), "127.0.0.1");
  EXPECT_EQ(comm::address_of_interface("127.0.0.1"), "127.0.0.1");
  try {
    comm::address_of_interface("nowhere0");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("STROBE_INTERFACE is nowhere0: not an interface of this host; valid: "),
              0u)
        << error.what();
  }
}

}  // namespace
}  // namespace strobe::test
