// Tests `strobe lm train` and `strobe lm sample` as users run them: the loss, checkpoints, signals, a full disk, token
// files, sampled text and bad input.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "cli/background.h"
#include "cli/lm/run.h"
#include "support/sanitized.h"

namespace strobe::test {
namespace {

// The mean loss of the last 10 of 300 steps must be below 1.2 nats per byte of English text. Uniform guessing has a
// loss of 5.5, single-letter frequencies of 2.9.
TEST(LmTrain, LossFallsBelowItsBound) {
  if (kSanitized) GTEST_SKIP() << "300 steps only improve the loss; other tests run the same code with fewer steps";
  const Scratch scratch;
  const Program program = run_program("lm train --data " + kText + " --val-data " + kText +
                                          " --out run --d-model 64 --d-ff 192 --layers 2 --heads 4 --context 64 "
                                          "--batch 8 --lr 0.003 --steps 300 --checkpoint-every 100 --quick",
                                      scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  const std::vector<double> losses = losses_in(scratch, "run");
  ASSERT_EQ(losses.size(), 300u);
  EXPECT_GT(losses[0], 5);
  EXPECT_LT(std::accumulate(losses.end() - 10, losses.end(), 0.0) / 10, 1.2);
  EXPECT_NE(program.output.find("step 300: validation loss "), std::string::npos);
  EXPECT_NE(program.output.find(" bits per byte  3415 of 3415 tokens\n"), std::string::npos) << program.output;
  EXPECT_NE(program.output.find("parameters     139,584"), std::string::npos) << program.output;
  EXPECT_NE(program.output.find("sample, temperature"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "run" / "step-00000300.safetensors"));

  const std::string sample = "lm sample --checkpoint run --prompt 'The sea ' --tokens 60 --temperature 0.5 --top-k 20";
  const Program text = run_program(sample, scratch);
  ASSERT_EQ(text.code, 0) << text.errors;
  EXPECT_EQ(text.output.find("The sea "), 0u);
  EXPECT_EQ(run_program(sample, scratch).output, text.output);
  EXPECT_NE(run_program(sample + " --seed 2", scratch).output, text.output);
}

// The tokens of a file are uint32 but read as uint16, or the reverse.
TEST(LmTrain, RejectsTokensOfAnotherWidth) {
  const Scratch scratch;
  std::ofstream wide(scratch.path() / "wide.bin", std::ios::binary),
      narrow(scratch.path() / "narrow.bin", std::ios::binary);
  for (std::uint32_t i = 0; i < 200; ++i) {
    const std::uint32_t token = i * 37 % 500;
    wide.write(reinterpret_cast<const char*>(&token), 4);
    narrow.write(reinterpret_cast<const char*>(&token), 2);
  }
  wide.close();
  narrow.close();
  const std::string flags =
      " --out run --vocabulary 500 --d-model 16 --d-ff 24 --layers 1 --heads 2 --context 8 --batch 2 --steps 1 --quick "
      "--threads 1 --sample-tokens 0";
  const std::string refusal = "wide.bin: its tokens are uint32, not uint16: every other uint16 word is at most 0; ";
  expect_refusal(run_program("lm train --data wide.bin" + flags, scratch), 2, refusal);
  expect_refusal(run_program("lm train --data narrow.bin --val-data wide.bin" + flags, scratch), 2, refusal);
  expect_refusal(run_program("lm train --data narrow.bin --data-format tokens32" + flags, scratch), 2,
                 "; valid: 0 to 499 (--vocabulary 500)");
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "run"));
  const Program program =
      run_program("lm train --data wide.bin --val-data wide.bin --data-format tokens32" + flags, scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("200 tokens32 tokens\n"), std::string::npos) << program.output;
  EXPECT_NE(program.output.find(" bits per token  199 of 199 tokens\n"), std::string::npos) << program.output;
}

// The prompt is escaped like the sampled text.
TEST(LmTrain, SampledTextKeepsTabsAndEscapesOtherControls) {
  const Scratch scratch;
  ASSERT_EQ(run_program(kSmall + "--out run --steps 1", scratch).code, 0);
  const Program sampled = run_program(
      "lm sample --checkpoint run --tokens 1 --rates --prompt '\ta\t\tb\n\x1b[31mc\r\b\x7f\xc2\x9b|'", scratch);
  ASSERT_EQ(sampled.code, 0) << sampled.errors;
  EXPECT_EQ(sampled.output.find("\ta\t\tb\n\\x1b[31mc\\x0d\\x08\\x7f\\xc2\\x9b|"), 0u) << sampled.output;
  EXPECT_EQ(sampled.errors.find("prompt: 18 tokens in "), 0u) << sampled.errors;
}

TEST(LmTrain, KeepsTheNewestCheckpoints) {
  const Scratch scratch;
  const Program program = run_program(kSmall + "--out run --steps 11 --checkpoint-every 2 --keep 2", scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("cpu, 1 thread\n"), std::string::npos) << program.output;
  EXPECT_EQ(scratch.entries(), 1u);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path() / "run")) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"run.json", "step-00000010.safetensors", "step-00000011.safetensors",
                                             "steps.jsonl"}));
}

// Interrupts a run, resumes it, and expects the results of an uninterrupted run. Returns false, without checks, if the
// run ended before the signal arrived.
bool resumes_after(int signal, int code, std::size_t steps) {
  const Scratch scratch;
  const std::string train = fmt::format("{}--steps {} --seed 3 --out ", kSmall, steps);
  Background training(train + "run", scratch);
  while (losses_in(scratch, "run").size() < 5 && !training.has_ended()) pause_for(0.005);
  training.send(signal);
  const int ended = training.wait();
  const std::size_t taken = losses_in(scratch, "run").size();
  if (taken == steps && (ended == 0 || ended == code)) return false;
  EXPECT_EQ(ended, code);
  EXPECT_EQ(std::filesystem::exists(scratch.path() / "run" / fmt::format("step-{:08}.safetensors", taken)), true);
  const Program rest =
      run_program("lm train --resume --quick --threads 2 --recompute block --data " + kText + " --out run", scratch);
  EXPECT_EQ(rest.code, 0) << rest.errors;
  EXPECT_EQ(run_program(train + "whole", scratch).code, 0);
  EXPECT_EQ(losses_in(scratch, "whole").size(), steps);
  EXPECT_EQ(losses_in(scratch, "run"), losses_in(scratch, "whole"));
  const std::string last = fmt::format("/step-{:08}.safetensors", steps);
  EXPECT_EQ(scratch.read("run" + last), scratch.read("whole" + last));
  EXPECT_NE(scratch.read("run" + last), "");
  return true;
}

// If training ended before the signal, tries a longer run.
TEST(LmTrain, ResumesBitForBitAfterSignals) {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM}) {
    for (std::size_t steps = 150; !resumes_after(signal, 128 + signal, steps); steps *= 4) {
      ASSERT_LT(steps, 30000u) << "no signal came in time";
    }
  }
}

TEST(LmTrain, RejectsBadInputInOneLine) {
  const Scratch scratch;
  std::ofstream(scratch.path() / "short.txt") << "only thirty-two tokens are here.";
  std::ofstream(scratch.path() / "odd.bin") << "abc";
  std::ofstream(scratch.path() / "high.bin") << std::string(200, '\xff');
  std::filesystem::create_directory(scratch.path() / "full");
  std::ofstream(scratch.path() / "full" / "letter") << "x";
  const auto refused = [&](const std::string& arguments, const std::string& part) {
    expect_refusal(run_program("lm train " + arguments, scratch), 2, part);
  };
  refused("--out run", "--data: is missing");
  refused("--data " + kText, "--out: is missing");
  refused("--data missing --out run", "--data missing: cannot be read: No such file");
  refused("--data short.txt --out run --context 32", "has 32 tokens; a context of 32 needs at least 33");
  refused("--data odd.bin --out run", "its 3 bytes are not a multiple of the token size 2");
  refused("--data high.bin --out run --context 8 --vocabulary 50257", "its token 0 is 65535; valid: 0 to 50256");
  refused("--data " + kText + " --vocabulary 100 --out run", "valid: 0 to 99");
  refused("--data " + kText + " --out full", "is not empty; valid: --resume in a run's folder");
  refused("--data " + kText + " --out run --resume", "to begin a new run there, leave out --resume");
  refused("--data " + kText + " --out run --steps 5 --lr-warmup 6", "more than the 5 steps");
  refused("--data " + kText + " --out run --lr 0.1 --lr-min 0.2", "--lr-min 0.2: above --lr, 0.1; valid: 0 to 0.1");
  refused("--data " + kText + " --out run --eps 0",
          "--eps 0: not a number in the valid range: at least 1e-37, below 1");
  refused("--data " + kText + " --out run --val-every 5", "--val-every 5: there is no validation data");
  refused("--data " + kText + " --out run --val-tokens 5", "--val-tokens 5: there is no validation data");
  refused("--data " + kText + " --out full --resume",
          "--out full: contains no run to resume, but other files such as letter; valid: ");
  refused("--data " + kText + " --out run --lr -1", "--lr -1: not a number in the valid range");
  refused("--data " + kText + " --out run --precision fp8", "--precision fp8: valid: fp32, tf32, bf16, fp16");
  refused("--data " + kText + " --out run --heads 3", "3 heads do not divide d_model 128");
  refused("--data " + kText + " --out run --val-data short.txt", "--val-data short.txt: has 32 tokens");
  refused("--data " + kText + " --out run --val-data high.bin",
          "has format tokens by its name, but --data has format text");
  refused("--data " + kText + " --out /proc/run", "--out /proc/run: cannot be created");
  refused("--data " + kText + " --out short.txt/run", "--out short.txt/run: cannot be created");
  expect_refusal(run_program("lm tain", scratch), 2, "\"lm tain\": unknown command; nearest: train");
  expect_refusal(run_program("lm sample", scratch), 2, "--checkpoint: is missing");
  expect_refusal(run_program("lm sample --checkpoint " + kText, scratch), 2, "is not a safetensors file");
  expect_refusal(run_program("lm sample --checkpoint full", scratch), 2, "contains no checkpoint");
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "run")) << "the folder is created only after all checks";
}

TEST(LmTrain, FullDiskLosesNothing) {
  const Scratch scratch;
  ASSERT_EQ(run_program(kSmall + "--out run --steps 20 --checkpoint-every 5", scratch).code, 0);
  ASSERT_EQ(run_program(kSmall + "--out whole --steps 20 --checkpoint-every 5", scratch).code, 0);
  const std::string last = "run/step-00000020.safetensors";
  std::filesystem::remove(scratch.path() / last);
  const std::string before = scratch.read("run/step-00000015.safetensors");
  const std::string resume = kSmall + "--out run --steps 20 --checkpoint-every 5 --resume";
  const Program full =
      run_command("(ulimit -f 100; '" STROBE_PROGRAM "' " + resume + ")", scratch);  // blocks of 512 or 1024 bytes
  expect_refusal(full, 3, "step-00000020.safetensors: writing failed: File too large");
  EXPECT_EQ(scratch.read("run/step-00000015.safetensors"), before);
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / last));
  ASSERT_EQ(run_program(resume, scratch).code, 0);
  EXPECT_EQ(scratch.read(last), scratch.read("whole/step-00000020.safetensors"));
  EXPECT_EQ(losses_in(scratch, "run"), losses_in(scratch, "whole"));
}

// A batch of 100000000 exceeds the memory of any machine. The run is rejected after the check of its folder, and must
// leave no new folder.
TEST(LmTrain, ARejectedRunLeavesNoFolder) {
  const Scratch scratch;
  const std::string large = "lm train --quick --device cpu --data " + kText + " --batch 100000000 --out ";
  for (const char* folder : {"run", "a/b/c/", "kept/run"}) {
    std::filesystem::create_directory(scratch.path() / "kept");
    expect_refusal(run_program(large + folder, scratch), 3, "are free");
    EXPECT_EQ(scratch.entries(), 1u) << folder;
    EXPECT_TRUE(std::filesystem::is_empty(scratch.path() / "kept")) << folder;
  }
  expect_refusal(run_program(large + "kept", scratch), 3, "are free");
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "kept")) << "the folder existed before the run";
}

TEST(LmTrain, WithoutACheckpointYetResumeKeepsTheRunsSettings) {
  const Scratch scratch;
  ASSERT_EQ(run_program(kSmall + "--out run --steps 3 --seed 5 --precision bf16 --sample-tokens 0", scratch).code, 0);
  const std::vector<double> losses = losses_in(scratch, "run");
  ASSERT_TRUE(std::filesystem::remove(scratch.path() / "run/step-00000003.safetensors"));
  const std::string resume = "lm train --resume --quick --threads 1 --sample-tokens 0 --out run --data " + kText;
  expect_refusal(run_program(resume + " --seed 6", scratch), 2, "--seed 6: ");
  const Program resumed = run_program(resume, scratch);
  ASSERT_EQ(resumed.code, 0) << resumed.errors;
  EXPECT_NE(resumed.output.find("no checkpoint in run yet: starts at step 0"), std::string::npos) << resumed.output;
  EXPECT_EQ(losses_in(scratch, "run"), losses);
}

TEST(LmTrain, CountsOneStepAsOne) {
  const Scratch scratch;
  const Program program = run_program(kSmall + "--out run --steps 1 --sample-tokens 0", scratch);
  EXPECT_NE(program.output.find("done: 1 step, saved as"), std::string::npos) << program.output;
}

TEST(LmTrain, SkippedStepsAreCountedToTheEnd) {
  const Scratch scratch;
  const Program program = run_program(
      "lm train --quick --data " + kText + " --out run --steps 3 --sample-tokens 0 " + kOverflowing, scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("  skipped, 1 in all: the gradient overflowed, loss scale now 32768\nstep 2/3"),
            std::string::npos)
      << program.output;
  EXPECT_NE(program.output.find("done: 3 steps, 1 skipped, saved as"), std::string::npos) << program.output;
  std::istringstream lines(scratch.read("run/steps.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const Json row = Json::parse(line);
    EXPECT_EQ(row.at("skipped_in_all").as_integer(), 1) << line;
    EXPECT_EQ(row.find("skipped") != nullptr, row.at("step").as_integer() == 1) << line;
  }
}

// Permissions do not stop the superuser, so as root the test mounts a read-only file system.
TEST(LmTrain, ReadOnlyFolderIsRejectedAtOnce) {
  const Scratch scratch;
  const auto folder = scratch.path() / "run";
  std::filesystem::create_directory(folder);
  std::filesystem::permissions(folder, std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  if (access(folder.c_str(), W_OK) == 0) {
    const Program unshared = run_command(
        "unshare -rm sh -c \"mount -t tmpfs -o ro none run && '" STROBE_PROGRAM "' " + kSmall + "--out run --steps 2\"",
        scratch);
    if (unshared.errors.find("unshare") != std::string::npos || unshared.errors.find("mount") != std::string::npos) {
      GTEST_SKIP() << "runs as root, and this system allows no mount namespaces: " << unshared.errors;
    }
    return expect_refusal(unshared, 2, "--out run: cannot be written: Read-only file system");
  }
  expect_refusal(run_program(kSmall + "--out run --steps 2", scratch), 2, "--out run: cannot be written: Permission");
}

TEST(LmTrain, DrawsAProgressBarOnATerminal) {
  const Scratch scratch;
  const std::string text = run_on_terminal(kSmall + "--out run --steps 6 --sample-tokens 0", scratch);
  EXPECT_NE(text.find("[############------------] 3/6"), std::string::npos) << text;
  EXPECT_NE(text.find("step 6/6"), std::string::npos);
}

TEST(LmTrain, SamplesOfTokenFilesAreTokenIds) {
  const Scratch scratch;
  std::string words;
  for (int i = 0; i < 400; ++i) words += {static_cast<char>(i % 7 * 40), static_cast<char>(i % 7 == 3 ? 3 : 0)};
  std::ofstream(scratch.path() / "a.bin", std::ios::binary) << words;
  const Program program = run_program(
      "lm train --data a.bin --vocabulary 1000 --d-model 16 --d-ff 32 --layers 1 --heads 2 --context 8 --batch 4 "
      "--steps 30 --out run --quick --threads 1 --sample-tokens 5",
      scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  const Program sample = run_program("lm sample --checkpoint run --prompt 0,40 --tokens 3 --temperature 0", scratch);
  EXPECT_EQ(sample.code, 0) << sample.errors;
  EXPECT_EQ(sample.output.find("0,40,"), 0u) << sample.output;
  expect_refusal(run_program("lm sample --checkpoint run --prompt 0,1000", scratch), 2, "--prompt 1000");
}

// Names of folders may contain braces, which must not become format fields of the message, and control characters,
// which must be escaped.
TEST(LmCheckpoint, ADamagedCheckpointIsNamedInFoldersWithSpecialCharacters) {
  const Scratch scratch;
  ASSERT_EQ(run_program(kSmall + "--out made --steps 4 --checkpoint-every 2 --sample-tokens 0", scratch).code, 0);
  std::filesystem::resize_file(scratch.path() / "made/step-00000004.safetensors", 1000);
  for (const std::string folder : {"run{1}", "{}{", "a\x1b[7mb"}) {
    std::filesystem::copy(scratch.path() / "made", scratch.path() / folder);
    const std::string shown = folder[0] == 'a' ? "a\\x1b[7mb" : folder;
    const Program sample = run_program("lm sample --checkpoint '" + folder + "'", scratch);
    expect_refusal(sample, 2, "--checkpoint " + shown + "/step-00000002.safetensors uses it");
    EXPECT_EQ(sample.errors.find('\x1b'), std::string::npos) << sample.errors;
    const Program resumed = run_program(kSmall + "--resume --steps 4 --out '" + folder + "'", scratch);
    expect_refusal(resumed, 2, "--resume=2 continues from there");
  }
}

TEST(LmCheckpoint, PlainPythonReadsIt) {
  const Scratch scratch;
  ASSERT_EQ(run_program(kSmall + "--out run --steps 2", scratch).code, 0);
  const Program program = run_command(
      "python3 '" STROBE_SOURCE_DIR "/tests/cli/lm/read_checkpoint.py' run/step-00000002.safetensors", scratch);
  EXPECT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("step 2, 65 tensors"), std::string::npos) << program.output;
}

TEST(LmCheckpoint, PackageSafetensorsReadsIt) {
  const Scratch scratch;
  const char* python = std::getenv("STROBE_TEST_PYTHON");
  const std::string interpreter = python ? python : "python3";
  if (run_command("'" + interpreter + "' -c 'import numpy, safetensors'", scratch).code != 0) {
    GTEST_SKIP() << interpreter << " has no package safetensors, or no numpy; STROBE_TEST_PYTHON names another Python";
  }
  ASSERT_EQ(run_program(kSmall + "--out run --steps 2", scratch).code, 0);
  const Program program = run_command("'" + interpreter +
                                          "' '" STROBE_SOURCE_DIR
                                          "/tests/cli/lm/read_checkpoint.py' --package run/step-00000002.safetensors",
                                      scratch);
  EXPECT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("the package reads the same"), std::string::npos) << program.output;
}

TEST(LmTrain, UsesTheThreadsOfTheEnvironmentWithoutAFlag) {
  const std::string train =
      "lm train --quick --d-model 32 --d-ff 64 --layers 1 --heads 1 --context 8 --batch 1 --steps 1 "
      "--sample-tokens 0 --data " +
      kText + " --out ";
  const Scratch scratch;
  EXPECT_NE(run_program(train + "a", scratch, "STROBE_THREADS=3").output.find("cpu, 3 threads\n"), std::string::npos);
  EXPECT_NE(run_program(train + "b --threads 2", scratch, "STROBE_THREADS=3").output.find("cpu, 2 threads\n"),
            std::string::npos);
  const Program bad = run_program(train + "c", scratch, "STROBE_THREADS=no");
  EXPECT_EQ(bad.code, 2);
  EXPECT_EQ(bad.errors, "strobe: STROBE_THREADS no: not a whole number in the valid range 1..1024\n");
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "c"));
}

}  // namespace
}  // namespace strobe::test
