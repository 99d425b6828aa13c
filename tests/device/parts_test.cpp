// Parts of a call: only the listener of the thread that runs the call receives them.
#include "device/host/parts.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace strobe {
namespace {

struct WritingListener : PartListener {
  void begin_part(const char* name, PartKind kind) override {
    told += std::string(kind == PartKind::product ? "product " : "other ") + name + ";";
  }
  void end_part() override { told += "end;"; }
  std::string told;
};

void run_two_parts() {
  { const Part part("a", PartKind::product); }
  const Part part("b");
}

TEST(Parts, ReachOnlyTheListenerOfTheirThread) {
  WritingListener listener;
  run_two_parts();
  EXPECT_EQ(listener.told, "") << "it does not listen";
  part_listener = &listener;
  std::thread(run_two_parts).join();
  EXPECT_EQ(listener.told, "") << "it listens on another thread";
  run_two_parts();
  part_listener = nullptr;
  EXPECT_EQ(listener.told, "product a;end;other b;end;");
  run_two_parts();
  EXPECT_EQ(listener.told, "product a;end;other b;end;") << "it listens no more";
}

}  // namespace
}  // namespace strobe
