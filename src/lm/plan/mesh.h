// Devices share one training in four directions, from the nearest to the farthest: neighbours in `tensor` share every
// layer; neighbours in `shard` have a batch each and split what Sharding says; `data` are whole copies of that;
// `pipeline` cuts the layers into stages, each of data x shard x tensor devices.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lm/models/shape.h"

namespace strobe::lm {

// Devices that take part in one collective, `stride` places apart.
struct Group {
  std::int64_t size = 1, stride = 1;
};

struct Mesh {
  std::int64_t data = 1, shard = 1, tensor = 1, pipeline = 1;

  std::int64_t devices() const { return data * shard * tensor * pipeline; }
  std::int64_t batches() const { return data * shard; }  // different ones, each of a tensor group

  Group tensor_group() const { return {tensor, 1}; }
  Group shard_group() const { return {shard, tensor}; }
  Group data_group() const { return {data, shard * tensor}; }
  Group batch_group() const { return {data * shard, tensor}; }
  Group pipeline_group() const { return {pipeline, data * shard * tensor}; }
};

// What neighbours in `shard` split: nothing, or each with what the one before splits.
enum class Sharding { replicated, optimizer, gradients, weights };

std::vector<std::string> sharding_names();  // replicated, optimizer, gradients, weights
const char* name_of(Sharding sharding);
Sharding sharding_of(std::string_view name);  // throws Error(invalid_argument) for another

// Throws Error(invalid_argument) if a direction is below 1.
void check_sizes(const Mesh& mesh);

// Throws Error(invalid_argument) if a direction is below 1 or tensor does not divide heads and d_ff.
void check(const Mesh& mesh, const ModelShape& shape);

}  // namespace strobe::lm
