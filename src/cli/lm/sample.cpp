// Implements `strobe lm sample`, which generates text from a checkpoint.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "app/common_options.h"
#include "app/help.h"
#include "app/options.h"
#include "app/terminal.h"
#include "cli/lm/shape_options.h"
#include "cli/lm/text.h"
#include "cli/verbs.h"
#include "core/counted.h"
#include "core/fail.h"
#include "core/printable.h"
#include "lm/sampler.h"
#include "lm/train/checkpoint.h"
#include "lm/train/checkpoint_folder.h"

namespace strobe::cli {
namespace {

constexpr const char* kLmSampleIntroduction =
    "usage: strobe lm sample --checkpoint FILE|DIR [--flag value ...]\n\n"
    "Continues a prompt, on the CPU in fp32 with a KV cache. Prints newlines and tabs as they are, other control\n"
    "characters and invalid UTF-8 as \\xNN. A model trained on a token file reads and prints token numbers: --prompt "
    "15,27.\n\n"
    "  strobe lm sample --checkpoint run --prompt \"The sea \" --tokens 200 --temperature 0.8 --top-k 40\n\n";

std::unique_ptr<lm::Checkpoint> open_any(const std::string& path) {
  constexpr auto kWeights = lm::CheckpointParts::weights;
  if (!std::filesystem::is_directory(path)) return std::make_unique<lm::Checkpoint>(path, kWeights);
  std::unique_ptr<lm::Checkpoint> newest = lm::open_checkpoint(path, lm::kNewest, kWeights, [&](std::int64_t step) {
    const std::string file = lm::checkpoint_path(path, step);
    return fmt::format("--checkpoint {} uses it", printable(file, std::string::npos));  // not truncated: users copy it
  });
  if (!newest) fail(ErrorCode::invalid_argument, "--checkpoint {}: contains no checkpoint", printable_value(path));
  return newest;
}

std::string rates_text(const lm::SampleTimes& times) {
  std::string text = fmt::format("prompt: {} in {:.1f} ms, {:.1f} tokens/s\n", counted(times.prompt_tokens, "token"),
                                 1e3 * times.prompt, static_cast<double>(times.prompt_tokens) / times.prompt);
  if (times.tokens == 0) return text;
  const auto tokens = static_cast<double>(times.tokens);
  return text + fmt::format("decode: {}, {:.2f} ms per token, {:.1f} tokens/s\n", counted(times.tokens, "token"),
                            1e3 * times.decode / tokens, tokens / times.decode);
}

struct SampleFlags {
  lm::SampleOptions options;
  std::string path, prompt;
  std::optional<lm::Architecture> architecture;
  std::optional<int> threads;
  bool rates = false;
};

void add_sample_options(OptionTable& table, SampleFlags& flags) {
  constexpr std::int64_t kMostTokens = 100'000'000;
  table.add("checkpoint", "FILE|DIR", "checkpoint of lm train, or a folder (its newest is used); required",
            into(flags.path, parse_text));
  table.add(make_arch_option(flags.architecture, "default, and only valid value: the checkpoint's"));
  table.add("prompt", "TEXT", "text to continue; default: a newline, or token 0", into(flags.prompt, parse_text));
  const auto count = [&](const char* name, const char* help, std::int64_t least, std::int64_t& target) {
    table.add(name, "N", help, integer_into(target, least, kMostTokens));
  };
  count("tokens", "tokens to sample; default 256", 1, flags.options.tokens);
  table.add("temperature", "X", "divisor of the logits; 0: greedy; default 1",
            number_into(flags.options.temperature, 0, 1000));
  count("top-k", "sample from the N most likely tokens; 0: all; default 0", 0, flags.options.top_k);
  table.add(make_seed_option([&flags](std::uint64_t seed) { flags.options.seed = seed; }));
  table.add(make_threads_option("CPU threads", flags.threads));
  table.add(
      make_switch("rates", "print times of the prompt and per decoded token to stderr; default off", flags.rates));
}

}  // namespace

int run_lm_sample(Arguments arguments) {
  SampleFlags flags;
  OptionTable table;
  add_sample_options(table, flags);
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print_help(kLmSampleIntroduction + table.help());
    return kFine;
  }
  if (flags.path.empty())
    fail(ErrorCode::invalid_argument, "--checkpoint: is missing; valid: a file or a folder of lm train");
  const std::unique_ptr<lm::Checkpoint> checkpoint = open_any(flags.path);
  const lm::Settings& settings = checkpoint->settings();
  if (flags.architecture && *flags.architecture != settings.shape.architecture) {
    fail(ErrorCode::invalid_argument, "--arch {}: the checkpoint's is {}; leave --arch out, or use another checkpoint",
         lm::name_of(*flags.architecture), lm::name_of(settings.shape.architecture));
  }
  const lm::DataFormat format = settings.data.format;
  if (flags.prompt.empty()) flags.prompt = format == lm::DataFormat::text ? "\n" : "0";
  std::vector<std::int32_t> tokens = tokens_of(flags.prompt, format, settings.shape.vocabulary);
  lm::Decoder decoder(settings.shape, checkpoint->state(lm::State::values), threads_of(flags.threads));
  lm::SampleTimes times;
  const std::vector<std::int32_t> drawn = lm::sample(decoder, tokens, flags.options, &times);
  tokens.insert(tokens.end(), drawn.begin(), drawn.end());
  print(text_of(tokens, format));
  if (flags.rates) print_aside(rates_text(times));
  return kFine;
}

}  // namespace strobe::cli
