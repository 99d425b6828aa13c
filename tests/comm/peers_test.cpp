// Tests the ranks' handshake and status messages without a communication engine. The ranks are processes on this host.
#include "comm/peers.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "core/clock.h"
#include "strobe/error.h"

namespace strobe::test {
namespace {

using comm::Listener;
using comm::Peers;

comm::World world_of(int rank, int size) {
  comm::World world;
  world.rank = rank;
  world.size = size;
  world.host = "host" + std::to_string(rank);
  world.token = "a token of the tests";
  return world;
}

constexpr comm::Limits kPatient{.silence = 60, .operation = 60};  // seconds; never reached, even on a busy machine
// For tests that wait until a rank exceeds the limit of silence.
constexpr comm::Limits kImpatient{.silence = 1, .operation = 60};

// Returns the error of rank 0. If the two ranks did not connect, appends the exit code of rank 1. Rank 1 is a child
// process that joins with `other` and then calls `act`.
std::string error_of_rank_0(const comm::World& own, const comm::World& other, const std::function<void(Peers&)>& act,
                            const comm::Limits& limits = kPatient) {
  Listener listener(comm::kLoopback);
  const pid_t child = fork();
  if (child == 0) {
    try {
      Peers peers(other, {"build", "model"}, limits, "127.0.0.1", listener.port());
      act(peers);
    } catch (const Error& error) {
      _exit(error.code() == ErrorCode::invalid_argument ? 2 : 3);
    }
    _exit(0);
  }
  std::string text;
  bool connected = false;
  try {
    Peers peers(own, {"build", "model"}, limits, listener, "text of rank 0");
    connected = true;
    const double until = now_seconds() + 60;
    while (!peers.failed() && now_seconds() < until) usleep(1000);
    text = peers.failure();
    kill(child, SIGKILL);
  } catch (const Error& error) {
    text = error.what();
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!connected && WIFEXITED(status)) text += "; the other: " + std::to_string(WEXITSTATUS(status));
  return text;
}

TEST(Peers, OfDifferentWorldsAreRejectedOnBothSides) {
  EXPECT_EQ(
      error_of_rank_0(world_of(0, 2), world_of(1, 3), [](Peers&) {}),
      "the ranks differ: the size of the world is \"3\" on rank 1 (host1) and \"2\" on rank 0 (host0); the other: 2");
  EXPECT_EQ(
      error_of_rank_0(
          world_of(0, 3), world_of(1, 2), [](Peers&) {}, kImpatient),
      "the ranks differ: the size of the world is \"2\" on rank 1 (host1) and \"3\" on rank 0 (host0); the other: 2");
  EXPECT_EQ(error_of_rank_0(world_of(0, 2), world_of(0, 2), [](Peers&) {}),
            "rank 0 (host0) connected twice, or is not one of 1 to 1; the other: 2");
}

// Rank 2 connects 1.5 s late, when rank 0 has already found that rank 1 has another fingerprint. Ranks 1 and 2 must
// both fail.
TEST(Peers, LateRanksAreRejectedToo) {
  Listener listener(comm::kLoopback);
  pid_t children[2];
  for (const int rank : {1, 2}) {
    pid_t& child = children[rank - 1] = fork();
    if (child != 0) continue;
    if (rank == 2) usleep(1'500'000);
    try {
      Peers peers(world_of(rank, 3), {"build", rank == 1 ? "another" : "model"}, kPatient, "127.0.0.1",
                  listener.port());
    } catch (const Error& error) {
      _exit(error.code() == ErrorCode::invalid_argument ? 2 : 3);
    }
    _exit(0);
  }
  EXPECT_THROW(Peers(world_of(0, 3), {"build", "model"}, kPatient, listener, ""), Error);
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2) << status;
  }
}

TEST(Peers, StoppedEndedAndFailedRanksAreReported) {
  const comm::World own = world_of(0, 2), other = world_of(1, 2);
  EXPECT_EQ(error_of_rank_0(
                own, other, [](Peers&) { raise(SIGSTOP); }, kImpatient),
            "rank 1 on host1 sent nothing for 1 s");
  EXPECT_EQ(error_of_rank_0(own, other, [](Peers&) { raise(SIGKILL); }), "rank 1 on host1 ended without a message");
  EXPECT_EQ(error_of_rank_0(own, other, [](Peers& peers) { peers.give_up("no more"); }),
            "rank 1 on host1 gave up: no more");
}

TEST(Peers, ShareRankZerosTextAndLeaveTogether) {
  Listener listener(comm::kLoopback);
  const pid_t child = fork();
  if (child == 0) {
    Peers peers(world_of(1, 2), {}, kPatient, "127.0.0.1", listener.port());
    const bool received = peers.shared() == "text of rank 0";
    _exit(received && peers.leave() ? 0 : 1);
  }
  Peers peers(world_of(0, 2), {}, kPatient, listener, "text of rank 0");
  EXPECT_TRUE(peers.leave());
  EXPECT_FALSE(peers.failed());
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(Peers, MissingRanksAreNamed) {
  Listener listener(comm::kLoopback);
  try {
    Peers peers(world_of(0, 2), {}, {.silence = 1, .operation = 0.2}, listener, "");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "rank 1 did not connect within 0.2 s");
    EXPECT_EQ(error.code(), ErrorCode::runtime);
  }
}

}  // namespace
}  // namespace strobe::test
