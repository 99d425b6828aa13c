// `strobe lm sample`: text from a checkpoint.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "cli/common_options.h"
#include "cli/lm.h"
#include "cli/lm_shape_options.h"
#include "cli/lm_text.h"
#include "cli/options.h"
#include "cli/threads.h"
#include "core/fail.h"
#include "core/printable.h"
#include "lm/checkpoint.h"
#include "lm/checkpoint_folder.h"
#include "lm/sampler.h"

namespace strobe::cli {
namespace {

constexpr const char* kLmSampleIntroduction =
    "usage: strobe lm sample --checkpoint FILE|DIR [--flag value ...]\n\n"
    "Goes on with a prompt, one token at a time, on the CPU in fp32. Control characters and bytes that are not UTF-8\n"
    "are shown as \\xNN. A model of a token file takes and gives numbers: --prompt 15,27.\n\n"
    "  strobe lm sample --checkpoint run --prompt \"The sea \" --tokens 200 --temperature 0.8 --top-k 40\n\n";

std::unique_ptr<lm::Checkpoint> open_any(const std::string& path) {
  if (!std::filesystem::is_directory(path)) return std::make_unique<lm::Checkpoint>(path);
  std::unique_ptr<lm::Checkpoint> newest = lm::open_checkpoint(path, lm::kNewest, [&](std::int64_t step) {
    const std::string file = lm::checkpoint_path(path, step);
    return fmt::format("--checkpoint {} takes it", printable(file, std::string::npos));  // whole, to be given
  });
  if (!newest) fail(ErrorCode::invalid_argument, "--checkpoint {}: has no checkpoint in it", printable_value(path));
  return newest;
}

}  // namespace

int run_lm_sample(Arguments arguments) {
  constexpr std::int64_t kMostTokens = 100'000'000;
  lm::SampleOptions options;
  std::string path, prompt;
  std::optional<lm::Architecture> architecture;
  std::optional<int> threads;
  OptionTable table;
  table.add({.name = "checkpoint",
             .placeholder = "FILE|DIR",
             .help = "a checkpoint of lm train, or a folder of them: the newest; needed",
             .apply = [&](auto flag, auto value) { path = parse_text(flag, value); }});
  table.add(make_arch_option(architecture, "default: the checkpoint's; another one is refused"));
  table.add({.name = "prompt",
             .placeholder = "TEXT",
             .help = "what it goes on with; default: the end of a line",
             .apply = [&](auto flag, auto value) { prompt = parse_text(flag, value); }});
  table.add(
      {.name = "tokens", .placeholder = "N", .help = "how many; default 256", .apply = [&](auto flag, auto value) {
         options.tokens = parse_integer(flag, value, 1, kMostTokens);
       }});
  table.add({.name = "temperature",
             .placeholder = "X",
             .help = "logits are divided by it; 0: always the likeliest token; default 1",
             .apply = [&](auto flag, auto value) { options.temperature = parse_number(flag, value, 0, 1000); }});
  table.add({.name = "top-k",
             .placeholder = "N",
             .help = "the likeliest N tokens alone, 0: all; default 0",
             .apply = [&](auto flag, auto value) { options.top_k = parse_integer(flag, value, 0, kMostTokens); }});
  table.add(make_seed_option([&options](std::uint64_t seed) { options.seed = seed; }));
  table.add(make_threads_option("of the CPU", threads));
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print(kLmSampleIntroduction + table.help());
    return kFine;
  }
  if (path.empty()) fail(ErrorCode::invalid_argument, "--checkpoint: is needed: a file or a folder of lm train");
  const std::unique_ptr<lm::Checkpoint> checkpoint = open_any(path);
  const lm::Settings& settings = checkpoint->settings();
  if (architecture && *architecture != settings.shape.architecture) {
    fail(ErrorCode::invalid_argument, "--arch {}: the checkpoint is of {}; leave it out, or take another checkpoint",
         lm::name_of(*architecture), lm::name_of(settings.shape.architecture));
  }
  const lm::DataFormat format = settings.data.format;
  if (prompt.empty()) prompt = format == lm::DataFormat::text ? "\n" : "0";
  std::vector<std::int32_t> tokens = tokens_of(prompt, format, settings.shape.vocabulary);
  lm::Decoder decoder(settings.shape, checkpoint->state(lm::State::values), threads_of(threads));
  const std::vector<std::int32_t> drawn = lm::sample(decoder, tokens, options);
  tokens.insert(tokens.end(), drawn.begin(), drawn.end());
  print(text_of(tokens, format));
  return kFine;
}

}  // namespace strobe::cli
