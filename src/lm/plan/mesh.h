// Mesh arranges the devices that train one model together; `strobe plan` uses it. Its dimensions, from the
// innermost, whose ranks are adjacent, to the outermost, are:
// - tensor: tensor parallelism; the devices split every layer.
// - shard: the devices have different batches, and split the state that Sharding selects.
// - data: replicas of the shard groups.
// - pipeline: stages of layers, each with data x shard x tensor devices.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lm/models/shape.h"

namespace strobe::lm {

// The devices of one collective: `size` ranks, each `stride` ranks after the previous one.
struct Group {
  std::int64_t size = 1, stride = 1;
};

struct Mesh {
  std::int64_t data = 1, shard = 1, tensor = 1, pipeline = 1;

  std::int64_t devices() const { return data * shard * tensor * pipeline; }
  std::int64_t batches() const { return data * shard; }  // distinct batches, one per tensor-parallel group

  Group tensor_group() const { return {tensor, 1}; }
  Group shard_group() const { return {shard, tensor}; }
  Group data_group() const { return {data, shard * tensor}; }
  Group batch_group() const { return {data * shard, tensor}; }
  Group pipeline_group() const { return {pipeline, data * shard * tensor}; }
};

// Selects the state that devices along `shard` split: none, ZeRO-1, ZeRO-2, ZeRO-3 (FSDP). Each includes the previous
// one.
enum class Sharding { replicated, optimizer, gradients, weights };

std::vector<std::string> sharding_names();  // replicated, optimizer, gradients, weights
const char* name_of(Sharding sharding);
Sharding sharding_of(std::string_view name);  // throws Error(invalid_argument) for an unknown name

// Throws Error(invalid_argument) if a dimension is below 1.
void check_sizes(const Mesh& mesh);

// Throws Error(invalid_argument) if a dimension is below 1 or tensor does not divide heads and d_ff.
void check(const Mesh& mesh, const ModelShape& shape);

}  // namespace strobe::lm
