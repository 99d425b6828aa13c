// Tests how rank and world size are read from the environment variables of each launcher, such as mpirun and Slurm.
#include <gtest/gtest.h>

#include <map>

#include "comm/communicator.h"
#include "strobe/error.h"

namespace strobe::test {
namespace {

using comm::World;

World world_of(const std::map<std::string, std::string>& variables) {
  return comm::world_from([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(World, IsOneRankWithoutALauncher) {
  const World world = world_of({});
  EXPECT_EQ(world.rank, 0);
  EXPECT_EQ(world.size, 1);
  EXPECT_EQ(world.launcher, "");
  EXPECT_FALSE(world.host.empty());
}

TEST(World, RanksUseTheGpusOfAHostRoundRobin) {
  World world;
  world.local_size = 5;
  const int shared[] = {3, 2, 3, 2, 3};
  for (world.local_rank = 0; world.local_rank < 5; ++world.local_rank) {
    EXPECT_EQ(comm::gpu_of(world, 2), world.local_rank % 2);
    EXPECT_EQ(comm::ranks_on_gpu_of(world, 2), shared[world.local_rank]);
    EXPECT_EQ(comm::ranks_on_gpu_of(world, 1), 5);
    EXPECT_EQ(comm::ranks_on_gpu_of(world, 8), 1);
  }
  world = {};
  world.local_size = 0;  // the launcher gives no local size
  EXPECT_EQ(comm::ranks_on_gpu_of(world, 1), 1);
}

// If mpirun's variables describe one rank but `strobe launch` started several, the engine is mpi, not single.
TEST(World, SeveralStartedRanksAreNeverASingleOne) {
  const std::map<std::string, std::string> one{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}};
  const auto engine = [&](const char* started) {
    std::map<std::string, std::string> variables = one;
    variables["STROBE_RANKS"] = started;
    return comm::engine_for(comm::EngineKind::automatic, world_of(variables));
  };
  EXPECT_EQ(comm::engine_for(comm::EngineKind::automatic, world_of(one)), comm::EngineKind::single);
  EXPECT_EQ(engine("1"), comm::EngineKind::single);
  EXPECT_EQ(engine("2"), comm::EngineKind::mpi);
  const std::map<std::string, std::string> second{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "1"}};
  EXPECT_THROW(world_of(second), Error);
  std::map<std::string, std::string> started = second;
  started["STROBE_RANKS"] = "2";
  EXPECT_EQ(world_of(started).rank, 1);
}

TEST(World, IsFoundFromEachLauncher) {
  const World mpi = world_of({{"OMPI_COMM_WORLD_RANK", "3"},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                              {"PMIX_RANK", "3"}});
  EXPECT_EQ(mpi.launcher, "Open MPI");
  EXPECT_EQ(mpi.rank, 3);
  EXPECT_EQ(mpi.size, 4);
  EXPECT_EQ(mpi.local_rank, 1);
  EXPECT_EQ(mpi.local_size, 2);

  const World slurm = world_of({{"SLURM_PROCID", "5"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_LOCALID", "1"}});
  EXPECT_EQ(slurm.launcher, "Slurm");
  EXPECT_EQ(slurm.rank, 5);
  EXPECT_EQ(slurm.size, 8);
  EXPECT_EQ(slurm.local_rank, 1);

  const World torch = world_of(
      {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}, {"MASTER_ADDR", "node-a"}, {"MASTER_PORT", "29500"}});
  EXPECT_EQ(torch.rank, 1);
  EXPECT_EQ(torch.size, 2);
  EXPECT_EQ(torch.local_rank, 0);
  EXPECT_EQ(torch.master_address, "node-a");
  EXPECT_EQ(torch.master_port, 29500);

  const World pmix = world_of({{"PMIX_RANK", "2"}});
  EXPECT_EQ(pmix.rank, 2);
  EXPECT_EQ(pmix.size, 0);
}

TEST(World, HasTheTokenAndTheSocketOfItsLauncher) {
  const World world = world_of({{"OMPI_COMM_WORLD_RANK", "0"},
                                {"OMPI_COMM_WORLD_SIZE", "2"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                {"STROBE_TOKEN", "0123456789abcdef"},
                                {"STROBE_LISTENER", "6"},
                                {"STROBE_INTERFACE", "eth0"}});
  EXPECT_EQ(world.token, "0123456789abcdef");
  EXPECT_EQ(world.master_listener, 6);
  EXPECT_EQ(world.interface, "eth0");
  EXPECT_TRUE(world.is_on_one_host());
  EXPECT_THROW(world_of({{"STROBE_TOKEN", "short"}}), Error);
}

TEST(World, IsOnOneHostOnlyIfThatIsKnown) {
  World slurm = world_of({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_LOCALID", "0"}});
  EXPECT_FALSE(slurm.is_on_one_host());
  slurm.one_host = true;  // MPI has reported that all ranks are on one host
  EXPECT_TRUE(slurm.is_on_one_host());
}

TEST(World, ABatchScriptOfSlurmIsNoRank) {
  EXPECT_EQ(world_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).launcher, "");
}

TEST(World, RejectsInconsistentVariables) {
  const auto refused = [](const std::map<std::string, std::string>& variables, const std::string& says) {
    try {
      world_of(variables);
      ADD_FAILURE() << says;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_EQ(std::string(error.what()), says);
    }
  };
  refused({{"RANK", "two"}, {"WORLD_SIZE", "2"}}, "RANK is two: not a whole number of 0 or more");
  refused({{"RANK", "2"}, {"WORLD_SIZE", "2"}},
          "RANK is 2 and WORLD_SIZE is 2: valid ranks are 0 to 1, and the size must be at least 1");
}

TEST(Share, CoversEverythingOnceAndSizesDifferByAtMostOne) {
  for (const std::int64_t total : {0, 1, 3, 4, 7, 1000}) {
    for (const int size : {1, 2, 3, 4, 6}) {
      std::int64_t next = 0;
      for (int rank = 0; rank < size; ++rank) {
        const comm::Share share = comm::share_of(total, rank, size);
        EXPECT_EQ(share.first, next);
        EXPECT_GE(share.count, total / size);
        EXPECT_LE(share.count, total / size + 1);
        next += share.count;
      }
      EXPECT_EQ(next, total);
    }
  }
}

TEST(Limits, ComeFromTheEnvironment) {
  const auto limits = [](const char* seconds) {
    return comm::limits_from(
        [=](const char* name) { return std::string_view(name) == "STROBE_COMM_TIMEOUT" ? seconds : nullptr; });
  };
  EXPECT_EQ(limits(nullptr).operation, comm::Limits().operation);
  EXPECT_EQ(limits("2.5").operation, 2.5);
  EXPECT_THROW(limits("soon"), Error);
  EXPECT_EQ(limits("1e9").operation, 1e9);
  for (const char* bad : {"0", "1e10", "inf", "nan"}) EXPECT_THROW(limits(bad), Error) << bad;
}

}  // namespace
}  // namespace strobe::test
