// Tests the program end to end: output of bench, explain and env, signals, and closed pipes. No file may be
// half-written.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

#include "bench/fake_python.h"
#include "cli/background.h"
#include "cli/run_program.h"
#include "core/json.h"

namespace strobe::test {
namespace {

constexpr const char* kSmallBench = "bench --batch_size 1 --seq_len 48 --num_heads 2 --emb_dim 32 --quick --repeats 3 ";

std::string small(const std::string& more) { return kSmallBench + more; }

TEST(Bench, AFlagWithoutEffectIsReported) {
  const Scratch scratch;
  const struct {
    const char* flags;
    const char* note;
  } table[] = {
      {"--align bottom_right", "note: --align without --causal, --window or --alibi has no effect\n"},
      {"--cache hot", "note: --cache hot on a CPU has no effect\n"},
      {"--deterministic", "note: --deterministic on a CPU has no effect\n"},
      {"--bias 1hqk --bias_gradient --pass forward", "note: --bias_gradient with --pass forward has no effect\n"}};
  for (const auto& row : table) {
    const Program program = run_program(small(std::string("--device cpu ") + row.flags), scratch);
    EXPECT_EQ(program.code, 0) << program.errors;
    EXPECT_NE(program.output.find(row.note), std::string::npos) << program.output;
  }
  for (const char* flags : {"--align top_left --causal", "--align top_left --causal=both", "--align top_left --alibi",
                            "--bias 1hqk --bias_gradient", "--cache cold"}) {
    const Program program = run_program(small(flags), scratch);
    EXPECT_EQ(program.output.find("has no effect"), std::string::npos) << flags << program.output;
  }
}

TEST(Bench, OneImplementationIsOneObject) {
  const Scratch scratch;
  const Program program = run_program(small("--causal"), scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_EQ(scratch.entries(), 1u);
  const Json json = Json::parse(scratch.read("benchmark_result.json"));
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json.at("implementation").as_string(), "flash2");
  EXPECT_EQ(json.at("status").as_string(), "ok");
  EXPECT_TRUE(json.at("config").at("causal").as_bool());
  EXPECT_EQ(json.at("config").at("dtype").as_string(), "fp16");
  EXPECT_EQ(json.at("statistics").at("forward").at("n").as_integer(), 3);
  EXPECT_EQ(json.at("command").as_string(), "strobe " + small("--causal"));
  EXPECT_GT(json.at("peak_memory_usage(MB)").as_number(), 0);
}

TEST(Bench, SeveralImplementationsAreAListInTheOrderOfTheFlag) {
  const Scratch scratch;
  const Program program = run_program(small("--impl reference,PYTORCH,Flash2 --output out.json --dtype=bf16"), scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  const Json json = Json::parse(scratch.read("out.json"));
  ASSERT_EQ(json.as_array().size(), 3u);
  EXPECT_EQ(json.as_array()[0].at("implementation").as_string(), "reference");
  EXPECT_EQ(json.as_array()[1].at("implementation").as_string(), "standard");
  EXPECT_EQ(json.as_array()[2].at("implementation").as_string(), "flash2");
  for (const char* title : {"implementation", "forward ms", "GFLOP/s", "backward ms", "peak MiB", "kernel"}) {
    EXPECT_NE(program.output.find(title), std::string::npos) << title;
  }
}

TEST(Bench, DashMeansTheStandardOutput) {
  const Scratch scratch;
  const Program program = run_program(small("--output -"), scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_EQ(Json::parse(program.output).at("status").as_string(), "ok");
  EXPECT_NE(program.errors.find("forward ms"), std::string::npos) << program.errors;  // the table, as JSON is on stdout
  EXPECT_EQ(scratch.entries(), 0u);
}

TEST(Bench, CausalBothGivesTwoRows) {
  const Scratch scratch;
  ASSERT_EQ(run_program(small("--causal=both"), scratch).code, 0);
  const Json json = Json::parse(scratch.read("benchmark_result.json"));
  ASSERT_EQ(json.as_array().size(), 2u);
  EXPECT_FALSE(json.as_array()[0].at("config").at("causal").as_bool());
  EXPECT_TRUE(json.as_array()[1].at("config").at("causal").as_bool());
}

TEST(Bench, DashesUnderscoresAliasesAndEqualSignsAreEquivalent) {
  for (const char* spelling : {"--batch_size 1 --seq_len 32 --num_heads 2 --emb_dim 32 --repeats 2",
                               "--batch-size=1 --seq-len=32 --num-heads=2 "
                               "--emb-dim=32 --repeats=2",
                               "--batch 1 --seq 32 --heads 2 --emb 32 --repeat 2"}) {
    const Scratch scratch;
    const Program program = run_program(std::string("bench --quick ") + spelling, scratch);
    ASSERT_EQ(program.code, 0) << program.errors;
    const Json json = Json::parse(scratch.read("benchmark_result.json"));
    EXPECT_EQ(json.at("config").at("seq_len").as_integer(), 32);
    EXPECT_EQ(json.at("config").at("head_dim").as_integer(), 16);
    EXPECT_FALSE(json.at("config").at("scaled").as_bool());
  }
}

TEST(Bench, ScaledDefaultsAreReported) {
  const Scratch scratch;
  const Program program = run_program("bench --quick --seq_len 16 --repeats 1", scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("--batch_size 32 -> 1"), std::string::npos) << program.output;
  EXPECT_TRUE(Json::parse(scratch.read("benchmark_result.json")).at("config").at("scaled").as_bool());
}

TEST(Bench, AcceptsGroupedHeadsAWindowAndMoreKeysThanQueries) {
  const Scratch scratch;
  const Program program = run_program(
      small("--num_kv_heads 1 --seq_len_k 64 --window 8:4 --align bottom_right --pass forward --dtype fp32"), scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  const Json json = Json::parse(scratch.read("benchmark_result.json"));
  EXPECT_TRUE(json.at("backward").at("time(s)").is_null());
  EXPECT_EQ(json.at("config").at("window").dump(), "[8,4]");
}

TEST(Bench, ScoreOptionsAreCheckedAndReported) {
  const Scratch scratch;
  const Program program = run_program(
      "bench --batch_size 3 --seq_len 32 --num_heads 2 --emb_dim 32 --quick --repeats 3 --softcap 5 --alibi "
      "--bias 1hqk --bias_gradient --sinks --dropout 0.25 --lengths 20,30 --impl Flash2,standard,torch-sdpa",
      scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  const Json json = Json::parse(scratch.read("benchmark_result.json"));
  const Json config = json.as_array()[0].at("config");
  EXPECT_EQ(config.at("softcap").as_number(), 5);
  EXPECT_TRUE(config.at("alibi").as_bool() && config.at("sinks").as_bool() && config.at("bias_gradient").as_bool());
  EXPECT_EQ(config.at("bias").as_string(), "1hqk");
  EXPECT_EQ(config.at("dropout").as_number(), 0.25);
  EXPECT_EQ(config.at("lengths").dump(), "[20,30,20]");
  EXPECT_EQ(json.as_array()[1].at("status").as_string(), "ok");
  EXPECT_EQ(json.as_array()[2].at("status").as_string(), "unsupported");
}

TEST(Explain, SupportsScoreOptions) {
  const Program program = run_program("explain --quick --seq_len 32 --bias bhqk --sinks");
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find(", bias bhqk, sinks"), std::string::npos) << program.output;
  EXPECT_NE(program.output.find("score options"), std::string::npos) << program.output;
}

TEST(Explain, ReportsWhatDoesNotFit) {
  const Program program =
      run_program("explain --quick --pass forward --batch_size 100000 --seq_len 1000000 --device cpu");
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("flash2: does not fit, "), std::string::npos) << program.output;
  EXPECT_EQ(run_program("explain --quick --seq_len 32 --device cpu").output.find("does not fit"), std::string::npos);
}

TEST(Bench, WrongResultIsExitCode1AndNoFile) {
  const FakePython zeros(R"(*\"results\"*) head -c 100000 /dev/zero >&3; echo '{"ok":true}' ;;)");
  const Scratch scratch;
  const Program program = run_program(small("--impl Flash2,torch-sdpa --dtype fp32"), scratch);
  EXPECT_EQ(program.code, 1);
  EXPECT_NE(program.errors.find("torch-sdpa: wrong result: O differs from"), std::string::npos) << program.errors;
  EXPECT_EQ(scratch.entries(), 0u);
}

TEST(Bench, MissingPeerAffectsOnlyItsRow) {
  const Scratch scratch;
  const Program program = run_program(small("--impl Flash2,torch-sdpa"), scratch, "STROBE_PYTHON=/nonexistent");
  EXPECT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("note: unsupported: torch-sdpa: cannot start /nonexistent"), std::string::npos)
      << program.output;
  const Json json = Json::parse(scratch.read("benchmark_result.json"));
  EXPECT_EQ(json.as_array()[1].at("status").as_string(), "unsupported");
  EXPECT_TRUE(json.as_array()[1].at("forward").at("time(s)").is_null());
  const Program alone = run_program(small("--impl torch-sdpa"), scratch, "STROBE_PYTHON=/nonexistent");
  EXPECT_EQ(alone.code, 2);
  EXPECT_EQ(std::count(alone.errors.begin(), alone.errors.end(), '\n'), 1) << alone.errors;  // prints the reason once
  EXPECT_NE(alone.errors.find("cannot start /nonexistent"), std::string::npos) << alone.errors;
  EXPECT_EQ(alone.output.find("cannot start"), std::string::npos) << alone.output;
}

TEST(Bench, CudnnOnACpuAffectsOnlyItsRow) {
  const Scratch scratch;
  const Program program = run_program(small("--impl Flash2,cuDNN --device cpu"), scratch);
  EXPECT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("note: unsupported: cudnn: device cpu; valid: cuda"), std::string::npos)
      << program.output;
  const Json json = Json::parse(scratch.read("benchmark_result.json"));
  EXPECT_EQ(json.as_array()[1].at("implementation").as_string(), "cudnn");
  EXPECT_EQ(json.as_array()[1].at("status").as_string(), "unsupported");
}

TEST(Bench, OutOfMemoryIsOneLineAndExitCode3) {
  const Scratch scratch;
  const Program program = run_program(small("--memory-limit 1K"), scratch);
  EXPECT_EQ(program.code, 3);
  EXPECT_NE(program.errors.find("out of memory"), std::string::npos) << program.errors;
  EXPECT_NE(program.errors.find("1024 bytes"), std::string::npos) << program.errors;
  EXPECT_EQ(scratch.entries(), 0u);
}

TEST(Bench, ClosedPipeIsQuietAndLosesNothing) {
  const Scratch scratch;
  const std::string command =
      "cd '" + scratch.path().string() + "' && { '" STROBE_PROGRAM "' " + small("") + " 2>err; echo $? >code; } | true";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(scratch.read("code"), "0\n");
  EXPECT_EQ(scratch.read("err"), "");
  EXPECT_TRUE(Json::parse(scratch.read("benchmark_result.json")).is_object());
}

TEST(Bench, FullStandardOutputIsExitCode3InOneLine) {
  const Scratch scratch;
  for (const std::string& arguments :
       {std::string("version"), std::string("bench --help"), std::string("env --quick --json"),
        std::string("explain --quick --seq_len 32"), small("--output - 2>/dev/null"), small("")}) {
    const Program program = run_command("{ '" STROBE_PROGRAM "' " + arguments + " >/dev/full; }", scratch);
    EXPECT_EQ(program.code, 3) << arguments;
    if (arguments.find("2>") != std::string::npos) continue;  // the table went to standard error
    EXPECT_EQ(program.errors, "strobe: standard output: cannot be written: No space left on device\n") << arguments;
  }
  EXPECT_TRUE(Json::parse(scratch.read("benchmark_result.json")).is_object());  // the file is written nevertheless
}

TEST(Bench, ArgumentsThatAreNotUtf8LeaveReadableJson) {
  const Scratch scratch;
  ASSERT_EQ(run_program(small("--output \xe9.json"), scratch).code, 0);
  const std::string command = Json::parse(scratch.read("\xe9.json")).at("command").as_string();
  EXPECT_NE(command.find("\ufffd.json"), std::string::npos) << command;
}

TEST(Bench, SignalsEndItWithNothingLeftBehind) {
  for (const auto& [name, code] : {std::pair{"INT", 130}, std::pair{"TERM", 143}, std::pair{"HUP", 129}}) {
    const Scratch scratch;
    const std::string before = std::string("env --default-signal=") + name + " timeout --preserve-status -s " + name;
    const Program program =
        run_program(std::string("bench --quick --repeats 1000000 --batch_size 1 --seq_len 64"), scratch, before + " 1");
    EXPECT_EQ(program.code, code);
    EXPECT_EQ(scratch.entries(), 0u);
  }
}

TEST(Bench, InterruptedItReportsThatNothingWasWritten) {
  const Scratch scratch;
  Background program("bench --quick --repeats 1000000 --batch_size 1 --seq_len 64 --output out.json", scratch,
                     "errors");
  ASSERT_TRUE(becomes([&] { return program.has_temporary_file(); }));
  program.send(SIGINT);
  EXPECT_EQ(program.wait(), 130);
  EXPECT_EQ(scratch.read("errors"), "strobe: bench: ended by a signal; nothing was written\n");
  EXPECT_EQ(scratch.entries(), 1u);
}

// The output is a small pipe that no process reads, so the program blocks in a write when the signal arrives.
TEST(Bench, InterruptedWhileWritingItDoesNotClaimThatNothingWasWritten) {
  for (const std::string launches : {"", " --launches 2"}) {
    const Scratch scratch;
    const std::string pipe = scratch.path() / "out.json";
    ASSERT_EQ(mkfifo(pipe.c_str(), 0666), 0);
    pollfd reader{.fd = open(pipe.c_str(), O_RDONLY | O_NONBLOCK), .events = POLLIN, .revents = 0};
    ASSERT_GT(fcntl(reader.fd, F_SETPIPE_SZ, 4096), 0);
    Background program(small("--causal=both --output out.json") + launches, scratch, "errors");
    ASSERT_EQ(poll(&reader, 1, 60'000), 1);
    program.send(SIGINT);
    EXPECT_EQ(program.wait(), 130);
    const std::string errors = scratch.read("errors");
    EXPECT_TRUE(errors.ends_with("strobe: bench: ended by a signal\n")) << errors;
    close(reader.fd);
  }
}

TEST(Explain, PrintsVerdictsWorkAndMemory) {
  const Program program =
      run_program("explain --quick --batch 8 --heads 1 --emb 16 --seq 16384 --dtype fp32 --threads 1");
  ASSERT_EQ(program.code, 0) << program.errors;
  for (const char* text : {"flash2", "standard", "reference", "chosen", "plain forward", "8224",
                           "Q, K, V 24 + scores 8192 + output 8", "gradient of the scores 8192", "137 GFLOP"}) {
    EXPECT_NE(program.output.find(text), std::string::npos) << text << "\n" << program.output;
  }
}

TEST(Bench, UnknownInstructionSetAffectsOnlyTheRowOfFlash2) {
  const Scratch scratch;
  const Program program =
      run_program("bench --batch_size 1 --seq_len 32 --num_heads 2 --emb_dim 32 --repeats 2 --impl Flash2,standard",
                  scratch, "STROBE_CPU_ISA=bogus");
  ASSERT_EQ(program.code, 0) << program.errors;
  const Json json = Json::parse(scratch.read("benchmark_result.json"));
  EXPECT_EQ(json.as_array()[0].at("status").as_string(), "unsupported");
  EXPECT_EQ(json.as_array()[1].at("status").as_string(), "ok");
  EXPECT_EQ(json.as_array()[1].at("environment").at("instruction_set_used").at("fp32").as_string(), "none");
  const Program explained = run_program("explain --quick --seq_len 32", scratch, "STROBE_CPU_ISA=bogus");
  EXPECT_EQ(explained.code, 0) << explained.errors;
  EXPECT_NE(explained.output.find("refuses: STROBE_CPU_ISA is 'bogus'"), std::string::npos) << explained.output;
}

TEST(Program, HelpAcceptsACommandOfAGroup) {
  for (const char* const name : {"lm", "lm train", "lm bench", "comm"}) {
    const Program program = run_program(std::string("help ") + name);
    EXPECT_EQ(program.code, 0) << program.errors;
    EXPECT_EQ(program.output, run_program(std::string(name) + " --help").output) << name;
  }
  EXPECT_EQ(run_program("help lm tain").code, 2);
  EXPECT_EQ(run_program("help lm train now").errors, "strobe: \"now\": help takes the name of one command\n");
  EXPECT_EQ(run_program("help bench now").errors, "strobe: \"now\": help takes the name of one command\n");
}

TEST(Explain, AcceptsBenchFlagsThatItsHelpDoesNotList) {
  const Scratch scratch;
  const Program program = run_program(
      "explain --seq_len 32 --quick=on --output x.json --repeats 3 --check=off --seed 2 --memory-limit 1K --pin=off "
      "--time-limit 1 --peer-timeout 1",
      scratch);
  EXPECT_EQ(program.code, 0);
  EXPECT_EQ(program.errors, "");
  EXPECT_EQ(scratch.entries(), 0u);
  const std::string help = run_program("explain --help").output;
  for (const char* flag : {"--seq_len ", "--bias ", "--device ", "--threads ", "--cells ", "--quick["}) {
    EXPECT_NE(help.find(flag), std::string::npos) << flag;
  }
  for (const char* flag : {"--impl", "--repeats", "--memory-limit", "--launches", "--output", "--seed"}) {
    EXPECT_EQ(help.find(flag), std::string::npos) << flag;
  }
}

TEST(Explain, RejectsABadProblemBeforeItPrintsAnything) {
  const Program program = run_program("explain --quick --num_heads 3 --num_kv_heads 2 --emb_dim 96");
  EXPECT_EQ(program.code, 2);
  EXPECT_EQ(program.output, "");
  const Program large = run_program("explain --quick --seq_len 1000000000 --batch_size 1000");
  EXPECT_EQ(large.code, 2);
  EXPECT_EQ(large.output, "");
  EXPECT_EQ(large.errors.rfind("strobe: the scores of batch 1000, 8 heads, 1000000000 queries", 0), 0u) << large.errors;
}

TEST(Env, PrintsTextOrJson) {
  const Program text = run_program("env --quick");
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.output.find("instruction sets"), std::string::npos);
  EXPECT_NE(text.output.find("clocks"), std::string::npos) << text.output;
  const Program json = run_program("env --json --quick");
  ASSERT_EQ(json.code, 0) << json.errors;
  const Json parsed = Json::parse(json.output);
  EXPECT_TRUE(parsed.at("ceilings").at("matrix_product_flop_per_s").at("fp32").is_null());
  for (const char* key : {"current_mhz", "max_mhz"}) {  // a clock from the system, or null and "unknown"
    const Json& mhz = parsed.at("cpu").at(key);
    EXPECT_TRUE(mhz.is_null() ? text.output.find("unknown") != std::string::npos : mhz.as_number() > 100) << key;
  }
}

}  // namespace
}  // namespace strobe::test
