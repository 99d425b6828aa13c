// Tests profiling scopes: only the sink of the calling thread receives them.
#include "device/host/profile_scope.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace strobe {
namespace {

struct WritingSink : ProfileSink {
  void begin_scope(const char* name, ScopeKind kind) override {
    log += std::string(kind == ScopeKind::matmul ? "matmul " : "other ") + name + ";";
  }
  void end_scope() override { log += "end;"; }
  std::string log;
};

void run_two_scopes() {
  { const ProfileScope scope("a", ScopeKind::matmul); }
  const ProfileScope scope("b");
}

TEST(ProfileScope, ReachOnlyTheSinkOfTheirThread) {
  WritingSink sink;
  run_two_scopes();
  EXPECT_EQ(sink.log, "") << "the sink is not installed";
  profile_sink = &sink;
  std::thread(run_two_scopes).join();
  EXPECT_EQ(sink.log, "") << "the sink belongs to another thread";
  run_two_scopes();
  profile_sink = nullptr;
  EXPECT_EQ(sink.log, "matmul a;end;other b;end;");
  run_two_scopes();
  EXPECT_EQ(sink.log, "matmul a;end;other b;end;") << "the sink was removed";
}

}  // namespace
}  // namespace strobe
