// Tests device meshes: how far apart the devices of a group are, splits that a layer does not allow, and the names of
// shardings.
#include "lm/plan/mesh.h"

#include <gtest/gtest.h>

#include "strobe/error.h"

namespace strobe::lm {
namespace {

TEST(Mesh, TensorGroupsAreNearestAndPipelineGroupsFarthest) {
  const Mesh mesh{.data = 4, .shard = 8, .tensor = 2};
  EXPECT_EQ(mesh.devices(), 64);
  EXPECT_EQ(mesh.batches(), 32);
  EXPECT_EQ(mesh.tensor_group().stride, 1);
  EXPECT_EQ(mesh.shard_group().stride, 2);
  EXPECT_EQ(mesh.data_group().stride, 16);
  EXPECT_EQ(mesh.batch_group().size, 32);
  EXPECT_EQ(mesh.batch_group().stride, 2);
  const Mesh staged{.data = 4, .shard = 8, .tensor = 2, .pipeline = 3};
  EXPECT_EQ(staged.devices(), 192);
  EXPECT_EQ(staged.batches(), 32);
  EXPECT_EQ(staged.pipeline_group().stride, 64);
}

std::string refusal(const Mesh& mesh, const ModelShape& shape) {
  try {
    check(mesh, shape);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Mesh, RejectsSplitsThatALayerDoesNotAllow) {
  EXPECT_EQ(refusal({.data = 3, .tensor = 5}, shape_of("xl")), "");
  EXPECT_EQ(refusal({.tensor = 4}, shape_of("xl")),
            "mesh tensor=4: does not divide 25 heads and d_ff 6400; valid: 1, 5, 25");
  EXPECT_EQ(refusal({.data = 0}, shape_of("xl")), "mesh data=0,shard=1,tensor=1,pipeline=1; valid: 1 or more each");
}

TEST(Mesh, ShardingsHaveNames) {
  for (const std::string& name : sharding_names()) EXPECT_EQ(name_of(sharding_of(name)), name);
  EXPECT_THROW(sharding_of("zero"), Error);
}

}  // namespace
}  // namespace strobe::lm
