// Tests flags as users type them, and --seed, --quick and --threads, which many commands share.
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cli/run_program.h"
#include "core/json.h"

namespace strobe::test {
namespace {

struct BadInput {
  const char* arguments;
  const char* says;  // text that the error line must contain
};

class RefusesBadInput : public testing::TestWithParam<BadInput> {};

TEST_P(RefusesBadInput, InOneLineWithExitCode2) {
  const Program program = run_program(GetParam().arguments);
  EXPECT_EQ(program.code, 2) << program.errors;
  EXPECT_NE(program.errors.find(GetParam().says), std::string::npos) << program.errors;
  EXPECT_EQ(std::count(program.errors.begin(), program.errors.end(), '\n'), 1) << program.errors;
}

INSTANTIATE_TEST_SUITE_P(
    Cli, RefusesBadInput,
    testing::Values(
        BadInput{"bnech", "\"bnech\": unknown command; nearest: bench"},
        BadInput{"frobnicate",
                 "valid: bench, sweep, compare, report, explain, solve, cases, ladder, lm, precision, comm, launch, "
                 "plan, env, completion, version, help"},
        BadInput{"bench --batch_sise 3",
                 "--batch_sise: unknown flag; nearest: --batch_size; all flags: strobe bench --help"},
        BadInput{"lm train --zzz 3", "--zzz: unknown flag; all flags: strobe lm train --help"},
        BadInput{"bench --causal yes", "--causal yes: valid: off, on, both; did you mean on?"},
        BadInput{"bench --check False", "--check False: valid: on, off; did you mean off?"},
        BadInput{"bench --memory-limit 24", "--memory-limit 24: 24 bytes; did you mean 24G?"},
        BadInput{"bench --seq_len 128,256",
                 "--seq_len 128,256: not one whole number; for several sizes: strobe sweep --seq_len 128,256"},
        BadInput{"bench --context 0x", "--context 0x: not a whole number"},
        BadInput{"bench --sequence-length 8 --seq-len 9",
                 "--seq-len, the same as --sequence-length: given twice, with 8 and 9; valid: once"},
        BadInput{"bench stray", "\"stray\": not a flag"},
        BadInput{"bench --", "\"--\": not a flag; flags have the form --NAME"},
        BadInput{"-x", "\"-x\": unknown command; valid: bench, sweep"},
        BadInput{"bench --cells ''", "--cells: the value is empty"},
        BadInput{"sweep --grid ''", "--grid: the value is empty"}, BadInput{"compare '' ''", "\"\": not a file name"},
        BadInput{"bench \"$(printf '\\033[2J')\"", "\"\\x1b[2J\": not a flag"},
        BadInput{"bench --dtype \"$(printf 'fp\\n8')\"", "--dtype fp\\x0a8: valid"},
        BadInput{"bench --seq x", "--seq x: not a whole number"},
        BadInput{"bench --seq_len 64 --seq=128",
                 "--seq, the same as --seq_len: given twice, with 64 and 128; valid: once"},
        BadInput{"bench --quick --quick", "--quick: given twice; valid: once"},
        BadInput{"env --quick --quick", "--quick: given twice; valid: once"},
        BadInput{"report a.json --output a --output b", "--output: given twice, with a and b"},
        BadInput{"bench --batch_size", "--batch_size: needs a value (N)"},
        BadInput{"bench --json --out=x.json", "--json: needs a value (FILE), but the flag --out=x.json follows"},
        BadInput{"plan --seqlen 4", "--seqlen: unknown flag; nearest: --seq-len; all flags: strobe plan --help"},
        BadInput{"bench --batch_size x", "--batch_size x: not a whole number"},
        BadInput{"bench --batch_size -1", "--batch_size -1"}, BadInput{"bench --batch_size 1.5", "--batch_size 1.5"},
        BadInput{"bench --batch_size 99999999999999999999", "--batch_size 99999999999999999999"},
        BadInput{"bench --num_heads 0", "--num_heads 0"},
        BadInput{"bench --num_heads 3 --emb_dim 64",
                 "--emb_dim 64: not a multiple of --num_heads 3; nearest valid: 63 or 66"},
        BadInput{"bench --num_heads 12",
                 "--num_heads 12: does not divide the default of --emb_dim, 2048; give both, such as --emb_dim 768"},
        BadInput{"bench --emb_dim 100",
                 "--emb_dim 100: not a multiple of the default of --num_heads, 32; nearest valid: 96 or 128, or"},
        BadInput{"bench --num_kv_heads 3", "--num_kv_heads 3: does not divide the default of --num_heads 8"},
        BadInput{"bench --num_heads 8 --emb_dim 64 --num_kv_heads 3",
                 "--num_kv_heads 3: does not divide --num_heads 8"},
        BadInput{"bench --impl ''", "--impl \"\": an empty name; valid: flash2, frugal, standard, reference"},
        BadInput{"bench --impl Flash2,,standard", "--impl \"Flash2,,standard\": an empty name"},
        BadInput{
            "bench --impl flash9",
            "--impl flash9: unknown implementation; valid: flash2, frugal, standard, reference, hopper, torch-sdpa"},
        BadInput{"bench --impl Flash2,flash2", "flash2 is named twice"},
        BadInput{"bench --dtype fp8", "--dtype fp8: valid: fp32, fp16, bf16"},
        BadInput{"bench --causal=maybe", "--causal maybe: valid: off, on, both"},
        BadInput{"bench --window 5", "--window 5: valid: LEFT:RIGHT"},
        BadInput{"bench --window a:b", "--window a:b: valid: LEFT:RIGHT"},
        BadInput{"bench --window 3:-2", "--window 3:-2: valid: LEFT:RIGHT"},
        BadInput{"bench --softcap 0", "--softcap 0: valid: a number from 1e-30 to 1e30, such as 30"},
        BadInput{"bench --softcap 1e-46", "--softcap 1e-46: valid"},
        BadInput{"bench --softcap 1e31", "--softcap 1e31: valid"},
        BadInput{"bench --dropout 1e-46", "--dropout 1e-46: valid"},
        BadInput{"bench --dropout 0.99999999", "--dropout 0.99999999: valid"},
        BadInput{"bench --threads 1025", "--threads 1025: not a whole number in the valid range 1..1024"},
        BadInput{"env --threads 1025", "--threads 1025: not a whole number in the valid range 1..1024"},
        BadInput{"bench --softcap inf", "--softcap inf: valid"}, BadInput{"bench --softcap 3x", "--softcap 3x: valid"},
        BadInput{"bench --dropout 1", "--dropout 1: valid: a probability above 0 and below 1"},
        BadInput{"bench --dropout nan", "--dropout nan: valid"},
        BadInput{"bench --bias full", "--bias full: valid: bhqk, b1qk"},
        BadInput{"bench --bias_gradient", "--bias_gradient: needs a bias; valid: with --bias, such as --bias 1hqk"},
        BadInput{"explain --sinks=many", "--sinks many: valid: on, off"},
        BadInput{"bench --lengths 3,", "--lengths \"\": not a whole number"},
        BadInput{"bench --lengths 9 --seq_len 8", "--lengths 9: longer than --seq_len 8"},
        BadInput{"bench --lengths 3,4,5 --seq_len 8 --batch_size 2", "3 lengths, but --batch_size is 2"},
        BadInput{"bench --lengths 3 --seq_len 8 --seq_len_k 9", "--seq_len is 8 and --seq_len_k 9"},
        BadInput{"bench --alibi --seq_len 8 --seq_len_k 9", "--alibi with --seq_len 8 and --seq_len_k 9"},
        BadInput{"bench --device cuda", "--device cuda: "},
        BadInput{"bench --device tpu", "--device tpu: valid: cpu, cuda\n"},
        BadInput{"bench --align", "--align: needs a value (top_left|bottom_right)"},
        BadInput{"bench --align middle", "--align middle: valid: top_left, bottom_right"},
        BadInput{"bench --cells /nonexistent", "--cells /nonexistent: cannot be read: No such file or directory"},
        BadInput{"bench --cells /tmp", "--cells /tmp: is a folder; valid: a file with"},
        BadInput{"bench --cells /dev/null", "--cells /dev/null: is not a regular file"},
        BadInput{"bench --cache warm", "--cache warm: valid: cold, hot"}, BadInput{"bench --repeats 0", "--repeats 0"},
        BadInput{"bench --time-limit nan", "--time-limit nan"},
        BadInput{"bench --memory-limit 5X", "--memory-limit 5X: not a size"},
        BadInput{"bench --quick=perhaps", "--quick perhaps: valid: on, off"},
        BadInput{"bench --causal --seq_len 8 --seq_len_k 9", "--align: not given, but --causal with --seq_len 8"},
        BadInput{"bench --window 1:1 --seq_len 8 --seq_len_k 9", "--window with --seq_len 8 and --seq_len_k 9"},
        BadInput{"bench --num_heads 1 --emb_dim 300", "300"},
        BadInput{"bench --output /nonexistent/folder/x.json",
                 "--output /nonexistent/folder/x.json: cannot be written: No such file"},
        BadInput{"bench --output ''", "--output \"\": a file name is needed"},
        BadInput{"bench --output /", "--output /: is a folder; a file name is needed"},
        BadInput{"version extra", "\"extra\": version takes no arguments"},
        BadInput{"--version extra", "\"extra\": version takes no arguments"},
        BadInput{"help bench extra", "\"extra\": help takes the name of one command"},
        BadInput{"--help bnech", "\"bnech\": unknown command; nearest: bench"},
        BadInput{"env --json=1", "--json: takes no value"},
        BadInput{"explain --quick=1", "--quick 1: valid: on, off; did you mean on?"}));

TEST(Cli, EveryFormOfHelpPrintsTheUsage) {
  for (const char* arguments : {"", "help", "--help", "-h", "bench --help", "bench -h", "explain --help", "env --help",
                                "help bench", "help explain", "help env"}) {
    const Program program = run_program(arguments);
    EXPECT_EQ(program.code, 0) << arguments;
    EXPECT_NE(program.output.find("usage: strobe"), std::string::npos) << arguments;
    EXPECT_EQ(program.errors, "") << arguments;
  }
  EXPECT_NE(run_program("bench --help").output.find("--batch_size N"), std::string::npos);
}

TEST(Cli, VersionIsPrinted) {
  for (const char* arguments : {"version", "--version"}) {
    const Program program = run_program(arguments);
    EXPECT_EQ(program.code, 0);
    EXPECT_EQ(program.output.rfind("strobe ", 0), 0u) << program.output;
  }
}

TEST(Threads, HelpAndAFlagIgnoreABadVariable) {
  const Scratch scratch;
  for (const char* arguments :
       {"lm bench --help", "lm profile --help", "lm memory --help", "lm train --help", "lm sample --help",
        "bench --help", "env --help", "plan --help", "explain --quick --seq_len 32 --threads 2",
        "lm bench --quick --size tiny --context 8 --batch 1 --warmup 0 --steps 1 --threads 2 --output out.json"}) {
    const Program program = run_program(arguments, scratch, "STROBE_THREADS=no");
    EXPECT_EQ(program.code, 0) << arguments << "\n" << program.errors;
  }
  const Json document = Json::parse(scratch.read("out.json"));
  EXPECT_EQ(document.at("rows").as_array().at(0).at("threads").as_integer(), 2);
}

TEST(Threads, DefaultToTheVariable) {
  const Scratch scratch;
  const std::string bench = "bench --quick --repeats 1 --batch_size 1 --seq_len 32 --output out.json";
  const Program measured = run_program(bench, scratch, "STROBE_THREADS=3");
  EXPECT_NE(measured.output.find("cpu, 3 threads"), std::string::npos) << measured.output << measured.errors;
  for (const std::string& arguments :
       {std::string("lm bench --quick --size tiny"), std::string("env --quick"), bench}) {
    const Program program = run_program(arguments, scratch, "STROBE_THREADS=0");
    EXPECT_EQ(program.code, 2) << arguments;
    EXPECT_EQ(program.errors, "strobe: STROBE_THREADS 0: not a whole number in the valid range 1..1024\n");
  }
}

// Returns the flag's entry in the command's --help as one line, or "" if the command has no such flag.
std::string help_of(const std::string& command, const std::string& flag) {
  const std::string help = run_program(command + " --help").output;
  const std::size_t begin = help.find("\n  " + flag);
  if (begin == std::string::npos) return "";
  std::istringstream words(
      help.substr(begin, std::min(help.find("\n  --", begin + 1), help.find("\n\n", begin)) - begin));
  std::string text;
  for (std::string word; words >> word;) text += word + " ";
  return text;
}

const std::vector<std::string> kCommands = {"bench",      "sweep",     "explain",     "env",          "ladder",
                                            "comm",       "plan",      "precision",   "solve in out", "compare a b",
                                            "report",     "cases gen", "cases judge", "lm bench",     "lm memory",
                                            "lm profile", "lm train",  "lm sample"};

std::vector<std::string> commands_with(const std::string& flag) {
  std::vector<std::string> commands;
  for (const std::string& command : kCommands) {
    if (!help_of(command, flag).empty()) commands.push_back(command);
  }
  return commands;
}

// Checks that all commands have the same help text for the flag and the same error for a bad value.
void expect_one_definition(const std::string& flag, const std::string& bad, const std::string& error) {
  std::set<std::string> texts;
  for (const std::string& command : commands_with(flag)) {
    texts.insert(help_of(command, flag));
    const Program program = run_program(command + " " + flag + "=" + bad);
    EXPECT_EQ(program.code, 2) << command;
    EXPECT_EQ(program.errors, "strobe: " + flag + " " + bad + ": " + error + "\n") << command;
  }
  EXPECT_EQ(texts.size(), 1u);
}

TEST(CommonOptions, SeedIsTheSameEverywhere) {
  EXPECT_EQ(commands_with("--seed"),
            (std::vector<std::string>{"bench", "sweep", "cases gen", "lm train", "lm sample"}));
  for (const char* bad : {"-1", "9223372036854775808", "1.5", "x"}) {
    expect_one_definition("--seed", bad, "not a whole number in the valid range 0 or more");
  }
}

TEST(CommonOptions, QuickIsTheSameEverywhere) {
  EXPECT_EQ(commands_with("--quick"),
            (std::vector<std::string>{"bench", "sweep", "explain", "env", "lm bench", "lm train"}));
  expect_one_definition("--quick", "1", "valid: on, off; did you mean on?");
}

}  // namespace

}  // namespace strobe::test
