// `strobe lm train`: flags to settings, then step by step with a line each, checkpoints, tests and a text at the end.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "bench/ceilings.h"
#include "cli/lm.h"
#include "cli/lm_text.h"
#include "cli/lm_train_options.h"
#include "cli/lm_train_run.h"
#include "core/atomic_file.h"
#include "core/counted.h"
#include "core/fail.h"
#include "core/printable.h"
#include "core/signals.h"
#include "core/text_table.h"
#include "device/host/thread_pool.h"
#include "lm/checkpoint_folder.h"
#include "lm/sampler.h"
#include "lm/trainer.h"

namespace strobe::cli {
namespace {

constexpr const char* kLmTrainIntroduction =
    "usage: strobe lm train --data FILE --out DIR [--flag value ...]\n\n"
    "Trains a decoder language model. DIR gets step-00000500.safetensors and so on, the last step's always, and\n"
    "steps.jsonl with every step's exact loss. Ctrl-C and SIGTERM save and end; --resume then goes on bit for bit.\n\n"
    "  strobe lm train --data book.txt --out run --steps 2000 --val-data other.txt\n\n";

std::string settings_table(const lm::Settings& settings, const lm::Upkeep& upkeep, const TrainFlags& flags,
                           int threads) {
  const lm::ModelShape& shape = settings.shape;
  TextTable table;
  table.add_column("setting", TextTable::Align::left);
  table.add_column("value", TextTable::Align::left);
  const auto row = [&](const char* name, std::string value) { table.add_row({name, std::move(value)}); };
  row("model", fmt::format("d_model {}, d_ff {}, layers {}, heads {}, context {}, vocabulary {}", shape.d_model,
                           shape.d_ff, shape.layers, shape.heads, shape.context, shape.vocabulary));
  row("parameters", grouped(lm::parameter_count(shape)));
  row("data",
      fmt::format("{}: {} {} tokens", flags.data, grouped(settings.data.tokens), lm::name_of(settings.data.format)));
  row("batch", fmt::format("{} sequences, {} tokens", settings.batch, grouped(settings.batch * shape.context)));
  row("steps", fmt::format("{}, checkpoint every {}", settings.steps, upkeep.checkpoint_every));
  row("learning rate", fmt::format("{} after {} of warm-up, then a cosine to {}", settings.rate,
                                   counted(settings.warmup, "step"), settings.least_rate));
  row("AdamW", fmt::format("betas {} and {}, eps {}, decay {}, clip {}", settings.beta1, settings.beta2, settings.eps,
                           settings.decay, settings.clip));
  row("precision", lm::name_of(settings.precision));
  row("place", settings.device == Device::cuda ? "cuda" : fmt::format("cpu, {} threads", threads));
  row("recompute", lm::name_of(flags.recompute));
  row("seed", std::to_string(settings.seed));
  return table.text();
}

// FLOP/s of the device's own matrix product, of which MFU is a share.
std::optional<double> ceiling_of(const lm::Settings& settings, int threads) {
  const DType types[] = {lm::dtype_of(settings.precision)};
  const bench::Ceilings ceilings =
      settings.device == Device::cuda
          ? bench::measure_gpu_ceilings(
                types, settings.precision == lm::Precision::tf32 ? bench::Depth::full : bench::Depth::brief)
          : bench::measure_ceilings(threads, types, bench::Depth::brief);
  return settings.precision == lm::Precision::tf32 ? ceilings.tf32 : ceilings.product(types[0]);
}

void print_sample(const lm::Trainer& trainer, std::int64_t tokens, int threads) {
  const lm::Settings& settings = trainer.settings();
  std::vector<float> values(static_cast<std::size_t>(lm::parameter_count(settings.shape)));
  trainer.model().read_state(lm::State::values, values);
  lm::Decoder decoder(settings.shape, values, threads);
  const bool text = settings.data.format == lm::DataFormat::text;
  const std::vector<std::int32_t> prompt{text && settings.shape.vocabulary > '\n' ? '\n' : 0};
  const std::vector<std::int32_t> drawn =
      lm::sample(decoder, prompt, {.tokens = tokens, .temperature = 0.8, .seed = settings.seed});
  print("sample, temperature 0.8:\n" + text_of(drawn, settings.data.format));
}

// "2 later checkpoints set aside, named run/step-00000160.safetensors.abandoned to that of step 170"
std::string told_aside(const lm::CheckpointFolder& folder, const std::vector<std::int64_t>& steps) {
  return fmt::format("{} set aside, named {}.abandoned{}", counted(steps.size(), "later checkpoint"),
                     folder.file(steps.front()),
                     steps.size() > 1 ? fmt::format(" to that of step {}", steps.back()) : "");
}

// Known before the first step and not after hours: whether the folder takes a checkpoint.
void check_folder(const lm::CheckpointFolder& folder, const lm::Settings& settings) {
  AtomicFile(folder.file(settings.steps), "--out").check_room(lm::checkpoint_bytes(settings.shape));
}

void check_data(const lm::TokenFile& file, const lm::Settings& settings) {
  file.windows(settings.shape.context);
  if (file.format() == lm::DataFormat::tokens || settings.shape.vocabulary < lm::kBytes) {
    file.check_vocabulary(settings.shape.vocabulary);
  }
}

// What the run is tested on; null: nothing.
std::unique_ptr<lm::TokenFile> open_validation(const TrainFlags& flags, const lm::Upkeep& upkeep,
                                               const lm::Settings& settings) {
  const std::string& path = upkeep.validation;
  if (path.empty()) return nullptr;
  const std::string asked_by = flags.validation.empty() ? "the run's --val-data" : "--val-data";
  const lm::DataFormat format = lm::data_format(flags.data_format, path);
  if (format != settings.data.format) {
    fail(ErrorCode::invalid_argument, "{} {}: is {} by its name, --data is {}; --data-format says it for both",
         asked_by, printable_value(path), lm::name_of(format), lm::name_of(settings.data.format));
  }
  auto file = std::make_unique<lm::TokenFile>(path, format, asked_by);
  check_data(*file, settings);
  return file;
}

// Nobody asked for fewer steps than are taken already.
void check_steps(const lm::Settings& settings, const lm::Progress& progress) {
  if (settings.steps >= progress.step) return;
  fail(ErrorCode::invalid_argument, "--steps {}: the checkpoint is that of step {}; valid: that many or more",
       settings.steps, progress.step);
}

void check_flags(const TrainFlags& flags) {
  if (flags.data.empty()) fail(ErrorCode::invalid_argument, "--data: is needed: the file to learn from");
  if (flags.out.empty()) fail(ErrorCode::invalid_argument, "--out: is needed: the folder for checkpoints");
}

}  // namespace

int run_lm_train(Arguments arguments) {
  TrainFlags flags;
  OptionTable table;
  add_train_options(table, flags);
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print(kLmTrainIntroduction + table.help());
    return kFine;
  }
  check_flags(flags);
  const lm::TokenFile data(flags.data, lm::data_format(flags.data_format, flags.data), "--data");
  const lm::DataIdentity identity = lm::identity_of(data);
  std::vector<std::string> notes;
  std::unique_ptr<lm::CheckpointFolder> folder;
  std::unique_ptr<lm::Checkpoint> checkpoint;
  lm::Upkeep upkeep;
  if (flags.resume) {
    folder = std::make_unique<lm::CheckpointFolder>(flags.out, lm::CheckpointFolder::Use::resume);
    checkpoint = lm::open_checkpoint(flags.out, flags.resume_step, "--resume={} goes on from there");
    if (!checkpoint) notes.push_back("no checkpoint in " + flags.out + " yet: begins at step 0");
    upkeep = lm::read_upkeep(folder->upkeep());
  }
  upkeep = upkeep_from(flags, upkeep);
  const lm::Settings settings =
      checkpoint ? settings_from(flags, identity, checkpoint->settings(), notes) : settings_from(flags, identity);
  if (checkpoint) check_steps(settings, checkpoint->progress());
  check_data(data, settings);
  const std::unique_ptr<lm::TokenFile> validation = open_validation(flags, upkeep, settings);
  if (!folder) folder = std::make_unique<lm::CheckpointFolder>(flags.out, lm::CheckpointFolder::Use::fresh);
  check_folder(*folder, settings);
  const int threads = flags.threads > 0 ? flags.threads : std::min(available_cores(), kMaxThreads);
  lm::Trainer trainer(settings, data, threads, flags.recompute);
  if (checkpoint) {
    trainer.resume(*checkpoint);
    checkpoint.reset();
    notes.push_back(fmt::format("goes on after step {}", trainer.progress().step));
  } else {
    trainer.begin();
  }
  lm::write_upkeep(folder->upkeep(), upkeep);
  const std::vector<std::int64_t> aside = folder->set_aside_after(trainer.progress().step);
  if (!aside.empty()) notes.push_back(told_aside(*folder, aside));
  print(settings_table(settings, upkeep, flags, threads));
  print(note_lines(notes));
  remember_first_signal();
  set_last_words("lm train: ended by a second signal before it had saved; --resume goes on from the last checkpoint");
  const std::optional<double> ceiling = flags.quick ? std::nullopt : ceiling_of(settings, threads);
  TrainRun run(trainer, *folder, upkeep, validation.get(), ceiling);
  if (const int signal = run.go(); signal != 0) return 128 + signal;
  const std::int64_t taken = trainer.progress().step;
  print(fmt::format("done: {}, saved as {}\n", counted(taken, "step"), folder->file(taken)));
  if (flags.sample_tokens > 0) print_sample(trainer, flags.sample_tokens, threads);
  return kFine;
}

}  // namespace strobe::cli
