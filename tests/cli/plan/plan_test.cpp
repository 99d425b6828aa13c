// Tests `strobe plan` as users run it: the complete text of a plan with given rates, output files, --check against
// measured rows, and bad input.
#include <gtest/gtest.h>

#include <fstream>

#include "cli/run_program.h"
#include "core/json.h"

namespace strobe::test {
namespace {

constexpr const char* kGiven =
    "plan --size small --devices 8,64 --machine a100 --flops 300 --mfu 0.5 --batch 4 --sharding replicated,weights";

constexpr const char* kText = R"(Work and machine
setting  value
work     small, 128,625,408 parameters, batch 4 of 512 tokens, bf16
machine  a100
device   300 TFLOP/s given, 50 % reached; memory 2040 GB/s, 80.0 GiB
links    300 GB/s and 5.00 us in nodes of 8, 25.0 GB/s and 10.0 us between

Memory of one of 8 devices, GiB
             replicated  weights
weights           0.719    0.125  fp32 and a low-precision copy
gradients         0.479   0.0951  fp32
optimizer         0.958    0.120  AdamW's moments
activations       0.315    0.766  without gradients
other            0.0314   0.0314  tokens, workspace
total              2.50     1.14
fits                yes      yes  of 80.0 GiB

One step of 8 devices, ms
           replicated  weights
forward          3.43     3.43
backward         6.86     6.86
update           1.89    0.236
exchange         3.33     3.63  overlappable
exposed         0.303    0.259  not overlapped
step             12.5     10.8
tokens/s      1312062  1518634  of all devices
computing      97.6 %   97.6 %  of the step
sent            0.900    0.900  GB within the node
calls              11       14  in backward
call             46.8     36.8  MB of gradients

Step, ms, and computing share
devices   replicated      weights  shortest
8        12.5 (98 %)  10.8 (98 %)  weights
64       14.4 (85 %)  11.0 (94 %)  weights

Smallest batch per device that overlaps the exchange completely
devices  replicated  weights  overlapped at this batch
8                 2        2  all
64                5        5  -

Memory of a device, GiB
devices  replicated  weights  fits
8              2.50     1.14  all
64             2.50    0.901  all
written: plan.json, plan-time.svg, plan-memory.svg, plan.md
)";

TEST(PlanCommand, PrintsAndWritesThePlan) {
  const Scratch scratch;
  const Program program = run_program(kGiven, scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_EQ(program.output, kText);
  const Json document = Json::parse(scratch.read("plan.json"));
  ASSERT_EQ(document.at("rows").size(), 4u);
  EXPECT_DOUBLE_EQ(document.at("machine").at("flop_per_s").as_number(), 150e12);
  const Json& last = document.at("rows").as_array()[3];
  EXPECT_EQ(last.at("mesh").at("shard").as_integer(), 64);
  EXPECT_FALSE(last.at("hides").as_bool());
  EXPECT_NE(scratch.read("plan.md").find("![Time of a training step, small, "), std::string::npos);
  EXPECT_NE(scratch.read("plan-memory.svg").find("device memory 80.0 GiB"), std::string::npos);
  EXPECT_NE(scratch.read("plan.md").find("| machine | a100 |"), std::string::npos);
  EXPECT_EQ(scratch.entries(), 4u);
  // With one number of devices a plan has no charts, so the charts of the earlier plan must be removed.
  const Program one = run_program("plan --devices 8", scratch);
  ASSERT_EQ(one.code, 0) << one.errors;
  EXPECT_EQ(scratch.entries(), 2u);
}

// Two pipeline stages have 3 and 2 of the 5 layers. Four micro-batches take 5 time slots, one of which is the bubble.
TEST(PlanCommand, APipelineListsItsStagesAndItsBubble) {
  const Scratch scratch;
  const Program program = run_program(
      "plan --network feed-forward --d-model 64 --d-ff 256 --layers 5 --mesh data=1,pipeline=2 --batch 4", scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  for (const char* line :
       {"work      feed-forward, 5 layers of 64 x 256, 163,840 parameters, batch 4 of 512 tokens, bf16\n",
        "pipeline  1 stage of 3 layers, 1 of 2, 4 micro-batches of 1 sequence; memory of the "}) {
    EXPECT_NE(program.output.find(line), std::string::npos) << program.output;
  }
  const Json row = Json::parse(scratch.read("plan.json")).at("rows").as_array().at(0);
  EXPECT_EQ(row.at("mesh").at("pipeline").as_integer(), 2);
  EXPECT_EQ(row.at("micro_batches").as_integer(), 4);
  EXPECT_EQ(row.at("network").as_string(), "feed-forward");
  EXPECT_EQ(row.at("memory_bytes").at("gradients").as_integer(), 4 * 3 * 2 * 64 * 256);
  const Json& time = row.at("time_s");
  EXPECT_NEAR(time.at("bubble").as_number() / (time.at("forward").as_number() + time.at("backward").as_number()), 0.25,
              1e-9);
}

TEST(PlanCommand, DefaultNumbersOfDevicesAreDivisibleByTheMesh) {
  const Scratch scratch;
  ASSERT_EQ(run_program("plan --mesh tensor=5 --sharding replicated", scratch).code, 0);
  const Json document = Json::parse(scratch.read("plan.json"));
  const auto& rows = document.at("rows").as_array();
  ASSERT_EQ(rows.size(), 11u);
  EXPECT_EQ(rows.front().at("devices").as_integer(), 10);
  EXPECT_EQ(rows.back().at("devices").as_integer(), 10240);
}

// If all devices are on one node, the plan neither needs nor prints the rate of links between nodes.
TEST(PlanCommand, DevicesOfOneNodeNeedNoLinksBetweenNodes) {
  const Scratch scratch;
  const std::string here = "plan --size tiny --machine here --flops 1 --memory-bandwidth 10 --devices-per-node 8 ";
  const Program four = run_program(here + "--bandwidth 2 --latency 0 --devices 4", scratch);
  ASSERT_EQ(four.code, 0) << four.errors;
  EXPECT_NE(four.output.find("links    2.00 GB/s and 0 us\n"), std::string::npos) << four.output;
  EXPECT_NE(four.output.find("fits "), std::string::npos) << "the memory of this machine is known";
  const Program one = run_program(here + "--devices 1", scratch);
  ASSERT_EQ(one.code, 0) << one.errors;
  EXPECT_EQ(one.output.find("calls"), std::string::npos) << one.output;
  const Json document = Json::parse(scratch.read("plan.json"));
  EXPECT_EQ(document.at("rows").as_array()[0].at("machine").as_string(), "here: 400 GFLOP/s per device");
}

// Sharded gradients need memory for a bucket of gradients, so the plan's memory grows with --bucket-mb.
TEST(PlanCommand, ALargerBucketNeedsMoreMemoryForShardedGradients) {
  const Scratch scratch;
  const auto gradients = [&](const char* bucket) {
    EXPECT_EQ(
        run_program(std::string("plan --size small --devices 8 --sharding gradients --bucket-mb ") + bucket, scratch)
            .code,
        0);
    const Json document = Json::parse(scratch.read("plan.json"));
    return document.at("rows").as_array()[0].at("memory_bytes").at("gradients").as_integer();
  };
  const std::int64_t all = 4 * 128'625'408;
  EXPECT_EQ(gradients("1"), all / 8 + 4 * 9'438'720) << "a bucket holds at least one transformer block";
  EXPECT_EQ(gradients("1000"), all / 8 + all);
}

TEST(PlanCommand, TheDefaultIsEveryStrategyFrom8To16384Devices) {
  const Scratch scratch;
  ASSERT_EQ(run_program("plan", scratch).code, 0);
  const Json document = Json::parse(scratch.read("plan.json"));
  const auto& rows = document.at("rows").as_array();
  ASSERT_EQ(rows.size(), 48u);
  EXPECT_EQ(rows.front().at("devices").as_integer(), 8);
  EXPECT_EQ(rows.back().at("devices").as_integer(), 16384);
}

// A plan for one device uses the same memory model as `lm memory`, so the bytes are equal.
TEST(PlanCommand, OneDeviceNeedsTheBytesOfLmMemory) {
  const Scratch scratch;
  ASSERT_EQ(run_program("lm memory --size tiny --context 16 --batch 2 --threads 1", scratch).code, 0);
  const Program program = run_program(
      "plan --size tiny --context 16 --batch 2 --threads 1 --precision fp32 --devices 1 --machine here --flops 1 "
      "--memory-bandwidth 10",
      scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("links    none needed"), std::string::npos) << program.output;
  const Json memory = Json::parse(scratch.read("lm_memory_result.json")), plan = Json::parse(scratch.read("plan.json"));
  EXPECT_EQ(plan.at("rows").as_array()[0].at("memory_bytes").at("total").as_integer(),
            memory.at("rows").as_array()[1].at("counted_bytes").as_integer());
}

std::string comm_row(const char* operation, int ranks, int bytes, double seconds) {
  return Json::object({{"kind", "collective"},
                       {"operation", operation},
                       {"engine", "mpi"},
                       {"memory", "host"},
                       {"ranks", ranks},
                       {"bytes", bytes},
                       {"status", "ok"},
                       {"statistics", Json::object({{"median(s)", seconds}})}})
             .dump() +
         "\n";
}

// Rows of `strobe comm`: operation, ranks, bytes, seconds. Two ranks have 2 GB/s and 10 us per round of messages. The
// row of four ranks has half of the predicted time.
const std::string kComm = comm_row("all-reduce", 2, 1000000, 0.00052) + comm_row("all-gather", 2, 100000000, 0.02501) +
                          comm_row("broadcast", 2, 1000, 1) + comm_row("reduce-scatter", 4, 1000000, 0.0001975);
// Returns a row of lm bench on a CPU in which the fields of `changed` replace the defaults.
Json step_row(const Json& changed) {
  const auto phase = [](double ms) { return Json::object({{"median(ms)", ms}, {"peak(B)", 1 << 20}}); };
  Json row = Json::object({{"size", "tiny"},
                           {"context", 16},
                           {"batch", 1},
                           {"precision", "fp32"},
                           {"attention", "auto"},
                           {"recompute", "none"},
                           {"threads", 1},
                           {"deterministic", false},
                           {"device", "cpu"},
                           {"pass", "step"},
                           {"status", "ok"},
                           {"FLOP", 3e9},
                           {"parameters", 1'000'000},
                           {"forward", phase(1)},
                           {"backward", phase(2)},
                           {"update", phase(0.5)},
                           {"whole", phase(3.5)}});
  for (const auto& [key, value] : changed.as_object()) row.set(key, value);
  return row;
}

constexpr const char* kFigures = " --machine here --flops 1 --memory-bandwidth 10 ";

void put(const Scratch& scratch, const char* name, const std::string& text) {
  std::ofstream(scratch.path() / name) << text;
}

TEST(PlanCommand, ChecksPredictionsAgainstMeasuredCollectives) {
  const Scratch scratch;
  put(scratch, "comm.jsonl", kComm);
  const Program program =
      run_program(std::string("plan") + kFigures + "--comm comm.jsonl --ranks 2 --check comm.jsonl", scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("links: 2.00 GB/s and 10.0 us (fitted to 2 rows of 2 ranks)"), std::string::npos)
      << program.output;
  EXPECT_NE(program.output.find("reduce-scatter of 0.954 MiB, 4 ranks  call ms     0.198      0.395  +100.0 %"),
            std::string::npos)
      << program.output;
  EXPECT_NE(program.output.find("call ms: median error 0.0 % of 3, at most 100.0 %"), std::string::npos)
      << program.output;
}

TEST(PlanCommand, ChecksPredictionsAgainstMeasuredSteps) {
  const Scratch scratch;
  ASSERT_EQ(run_program("lm bench --size tiny --context 16 --batch 1 --warmup 0 --steps 2 --threads 1 --quick "
                        "--output bench.json",
                        scratch)
                .code,
            0);
  const Program program = run_program("plan --machine here --bench bench.json --check bench.json", scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  for (const char* const says :
       {"forward ms", "backward ms", "update ms", "step ms", "update ms: median error 0.0 % of 1",
        "memory MiB: median error 0.0 % of 1, at most 0.0 %"}) {
    EXPECT_NE(program.output.find(says), std::string::npos) << says << "\n" << program.output;
  }
}

TEST(PlanCommand, RowsWithRecomputationCheckForwardUpdateAndMemory) {
  const Scratch scratch;
  const Json slow = Json::object({{"median(ms)", 5.0}});
  put(scratch, "bench.json",
      Json::object({{"rows", Json::array({step_row(Json::object({})),
                                          step_row(Json::object({{"recompute", "block"}, {"backward", slow}}))})}})
          .dump());
  const Program program = run_program("plan --machine here --bench bench.json --check bench.json", scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  // 3 GFLOP in 1 ms forward and 2 ms backward are 1 TFLOP/s. The rate excludes the row with recomputation.
  EXPECT_NE(program.output.find("device in fp32: 1.00 TFLOP/s, the median of 1 row of lm bench"), std::string::npos)
      << program.output;
  EXPECT_NE(program.output.find("tiny, context 16, batch 1, fp32, recompute block"), std::string::npos);
  for (const char* const says : {"forward ms: median error", "update ms: median error", "memory MiB: median error"}) {
    const std::size_t at = program.output.find(says);
    ASSERT_NE(at, std::string::npos) << says << program.output;
    EXPECT_NE(program.output.find("of 2,", at), std::string::npos) << says << program.output;
  }
  for (const char* const says : {"backward ms: median error", "step ms: median error"}) {
    const std::string line = program.output.substr(program.output.find(says));
    EXPECT_NE(line.substr(0, line.find('\n')).find("of 1,"), std::string::npos) << says << program.output;
  }
}

TEST(PlanCommand, EachStepIsCheckedInItsPrecision) {
  const Scratch scratch;
  put(scratch, "bench.json",
      step_row(Json::object({})).dump() + step_row(Json::object({{"precision", "bf16"}})).dump());
  const Program program = run_program("plan --machine a100 --check bench.json", scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("device in fp32: 19.5 TFLOP/s"), std::string::npos) << program.output;
  EXPECT_NE(program.output.find("device in bf16: 312 TFLOP/s"), std::string::npos) << program.output;
  EXPECT_TRUE(program.output.starts_with("machine: a100 (choose with --machine: here, a100, h100, h200)\n"))
      << program.output;
  EXPECT_TRUE(run_program("plan --check bench.json", scratch).output.starts_with("machine: h100 ("));
}

TEST(PlanCommand, RejectsBadInputInOneLineAndWritesNothing) {
  const struct {
    const char *flags, *says;
  } cases[] = {
      {"--mesh data=16777216,shard=16777216",
       "--mesh data=16777216,shard=16777216: has more than 16777216 devices; valid: at most that many"},
      {"--mesh data=2,shard=2 --devices 8",
       "--mesh data=2,shard=2: has 4 devices, but --devices is 8; valid: --devices 4, or a mesh without data"},
      {"--mesh shard=3 --devices 8", "--mesh shard=3: 3 does not divide --devices 8; valid: multiples of 3"},
      {"--mesh pipeline=3 --sharding weights --devices 8",
       "--mesh pipeline=3: 3 does not divide --devices 8; valid: multiples of 3"},
      {"--mesh tensor=4", "mesh tensor=4: does not divide 25 heads and d_ff 6400; valid: 1, 5, 25"},
      {"--mesh pipe=2", "--mesh pipe=2: pipe=2: valid: data=N, shard=N, tensor=N and pipeline=N, separated by commas"},
      {"--mesh pipeline=49 --devices 49", "mesh pipeline=49: more stages than the model's 48 layers; valid: 1 to 48"},
      {"--mesh pipeline=2 --micro-batches 3 --devices 8",
       "3 micro-batches: do not divide a batch of 8; valid: a divisor of it"},
      {"--micro-batches 4", "--micro-batches: has no effect here; valid: with --mesh pipeline=2 or more"},
      {"--network moe", "--network moe: valid: decoder, feed-forward"},
      {"--network feed-forward --heads 4", "--heads: has no effect here; valid: with --network decoder"},
      {"--mesh data=2,data=3", "--mesh data=2,data=3: data is listed twice; valid: each once"},
      {"--mesh tensor=0", "--mesh tensor=0: tensor 0: not a whole number in the valid range 1..16777216"},
      {"--mesh data=8 --sharding weights",
       "--sharding weights: --mesh data=8 has no ranks to shard over; valid: shard=2 or more"},
      {"--sharding zero", "--sharding zero: valid: replicated, optimizer, gradients, weights"},
      {"--d-model 262144 --heads 1024 --d-ff 1048576 --context 1048576 --batch 1048576 --layers 9 --devices 8",
       "lm: activations of batch 1048576 of 1048576 tokens take more than 2^60 bytes"},
      {"--mfu 1.1", "--mfu 1.1: valid: 1e-06 to 1"},
      {"--mfu 0", "--mfu 0: valid: 1e-06 to 1"},
      {"--mfu 1e-320", "--mfu 1e-320: valid: 1e-06 to 1"},
      {"--mfu nan", "--mfu nan: valid: 1e-06 to 1"},
      {"--mfu 0.5 --bench step.json", "--mfu: has no effect here; valid: without --bench, whose rows have it"},
      {"--ranks 2", "--ranks: has no effect here; valid: with --comm FILE"},
      {"--comm-from 4M", "--comm-from: has no effect here; valid: with --comm FILE"},
      {"--machine here --node-latency 3", "--node-latency: has no effect here; valid: with --devices-per-node N"},
      {"--size xl --check step.json", "--size: has no effect here; valid: without --check"},
      {"--output plan.json --check step.json", "--output: has no effect here; valid: without --check"},
      {"--output none/plan.json", "--output none/plan.json: cannot be written"},
      {"--devices 8,8", "--devices 8,8: 8 is listed twice; valid: each once"},
      {"--output plan.txt", "--output plan.txt: valid: a file that ends in .json"},
      {"--machine here --flops 1 --memory-bandwidth 10",
       "--machine here: no bandwidth between devices; give --comm FILE of strobe comm, or --bandwidth GB/s"},
      {"--machine here --flops 1 --memory-bandwidth 1 --bandwidth 1 --devices-per-node 4",
       "--devices-per-node 4: no bandwidth between nodes; give --node-bandwidth GB/s"},
      {"--comm none.jsonl", "none.jsonl: cannot be read"},
      {"--comm comm.jsonl --bandwidth 3", "--comm comm.jsonl and --bandwidth 3: valid: one of them"},
      {"--comm comm.jsonl --ranks 3", "--ranks 3: --comm comm.jsonl has rows of 2, 4"},
      {"--comm comm.jsonl --ranks 4",
       "--comm comm.jsonl from 0 bytes on: latency and bandwidth need times of at least two sizes"},
      {"--comm other.json", "--comm other.json: no times of collectives between ranks; valid: rows of strobe comm"},
      {"--bench comm.jsonl", "--bench comm.jsonl: no step in bf16 with times; valid: rows of strobe lm bench"},
      {"--bench comm.jsonl --flops 3", "--bench comm.jsonl and --flops 3: valid: one of them"},
      {"--comm comm.jsonl --comm-from 1G",
       "--comm-from 1073741824: --comm comm.jsonl has rows of up to 1000000 bytes; valid: at most that"},
      {"--comm zero.jsonl", "zero.jsonl, line 2: median_s is 0; valid: 1e-12 to 1e+09 seconds"},
      {"--bench step.json", "step.json, line 1: row 2: median_s is 0; valid: 1e-12 to 1e+09 seconds"},
      {"--bench again.json",
       "--bench again.json: no step in bf16 with times; valid: rows of strobe lm bench that recompute nothing"},
      {"--check step.json", "step.json, line 1: row 2: median_s is 0; valid: 1e-12 to 1e+09 seconds"},
      {"--check threads.json", "threads.json, line 1: threads 0; valid: 1 to "},
      {"--check other.json", "other.json, line 1: not a row of strobe lm bench or strobe comm"},
  };
  const Scratch scratch;
  put(scratch, "comm.jsonl", kComm);
  put(scratch, "other.json", "{\"a\": 1}\n");
  put(scratch, "zero.jsonl", comm_row("all-reduce", 2, 1000, 1) + comm_row("all-reduce", 2, 1000, 0));
  const Json bf16 = step_row(Json::object({{"precision", "bf16"}}));
  Json zero = bf16;
  zero.set("forward", Json::object({{"median(ms)", 0}}));
  put(scratch, "step.json", Json::object({{"rows", Json::array({bf16, zero})}}).dump());
  put(scratch, "again.json", step_row(Json::object({{"precision", "bf16"}, {"recompute", "block"}})).dump());
  put(scratch, "threads.json", step_row(Json::object({{"threads", 0}})).dump());
  for (const auto& [flags, says] : cases) {
    const Program program = run_program(std::string("plan ") + flags, scratch);
    EXPECT_EQ(program.code, 2) << flags;
    EXPECT_EQ(program.output, "") << flags;
    EXPECT_EQ(program.errors.substr(0, 8 + std::string(says).size()), std::string("strobe: ") + says);
    EXPECT_EQ(std::count(program.errors.begin(), program.errors.end(), '\n'), 1) << program.errors;
    EXPECT_EQ(scratch.entries(), 6u) << flags;
  }
}

}  // namespace
}  // namespace strobe::test
