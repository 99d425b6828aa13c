// Tests a communicator of one rank: each collective returns its input, and invalid calls throw.
#include <gtest/gtest.h>

#include <vector>

#include "comm/communicator.h"
#include "strobe/error.h"

namespace strobe::test {
namespace {

using comm::elements;

comm::World world_of_one() {
  return comm::world_from([](const char*) -> const char* { return nullptr; });
}

TEST(Single, EveryOperationIsACopy) {
  comm::Communicator communicator(world_of_one());
  EXPECT_EQ(communicator.size(), 1);
  EXPECT_EQ(communicator.engine(), comm::EngineKind::single);
  std::vector<float> in{1, 2, 3}, out(3);
  communicator.all_reduce(elements(std::span(in)), elements(std::span(out)));
  EXPECT_EQ(out, in);
  std::vector<float> part(3);
  communicator.reduce_scatter(elements(std::span(in)), elements(std::span(part)));
  EXPECT_EQ(part, in);
  std::vector<float> whole(3);
  const comm::Pending pending = communicator.start_all_gather(elements(std::span(part)), elements(std::span(whole)));
  pending.wait();
  EXPECT_TRUE(pending.done());
  EXPECT_EQ(whole, in);
  communicator.broadcast(elements(std::span(in)));
  communicator.barrier();
  EXPECT_TRUE(comm::Pending().done());
}

TEST(Single, RejectsBadCallsWithTheValues) {
  comm::Communicator communicator(world_of_one());
  std::vector<float> three(3), two(2);
  std::vector<double> other(3);
  std::vector<std::byte> bytes(3);
  const auto refused = [&](comm::Collective one, const std::string& says) {
    try {
      communicator.start(one);
      ADD_FAILURE() << says;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_EQ(std::string(error.what()), says);
    }
  };
  using comm::Kind;
  const auto a = elements(std::span(three)), b = elements(std::span(two));
  refused({.kind = Kind::all_reduce, .in = a, .out = b},
          "all-reduce of 3 fp32: 3 elements in and 2 out on rank 0 of 1; valid: 3 and 3");
  refused({.kind = Kind::all_reduce, .in = a, .out = elements(std::span(other))},
          "all-reduce of 3 fp64: fp32 in, fp64 out; valid: the same type, both in host or both in GPU memory");
  refused({.kind = Kind::all_reduce, .in = elements(std::span(bytes)), .out = elements(std::span(bytes))},
          "all-reduce of 3 bytes: bytes are not summed; valid: fp32, fp64, int64");
  refused({.kind = Kind::broadcast, .out = a, .root = 1}, "broadcast of 3 fp32: root 1; valid: 0 to 0");
  refused({.kind = Kind::broadcast, .out = {nullptr, 4, comm::Element::fp32}}, "broadcast of 4 fp32: no memory given");
  communicator.all_reduce(a);  // the communicator still works
}

TEST(Single, AfterAbortEveryCallFails) {
  comm::Communicator communicator(world_of_one());
  communicator.abort("enough");
  try {
    communicator.barrier();
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("barrier (call 1): this rank gave up: enough"), std::string::npos);
  }
}

TEST(Single, IsRejectedForSeveralRanks) {
  comm::World world = world_of_one();
  world.size = 2;
  EXPECT_THROW(comm::Communicator(world, {.engine = comm::EngineKind::single}), Error);
}

}  // namespace
}  // namespace strobe::test
