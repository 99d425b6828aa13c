// Implements `strobe lm train`: builds settings from flags, trains with checkpoints and validation, prints a sample.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "app/common_options.h"
#include "app/help.h"
#include "app/program.h"
#include "app/signals.h"
#include "app/terminal.h"
#include "bench/ceilings.h"
#include "cli/lm/ranks.h"
#include "cli/lm/text.h"
#include "cli/lm/train.h"
#include "cli/lm/train_options.h"
#include "cli/verbs.h"
#include "core/counted.h"
#include "core/fail.h"
#include "lm/data_parallel/parallel_backend.h"
#include "lm/sampler.h"
#include "lm/train/checkpoint_folder.h"
#include "lm/train/trainer.h"
#include "results/table.h"

namespace strobe::cli {
namespace {

constexpr const char* kLmTrainIntroduction =
    "usage: strobe lm train --data FILE --out DIR [--flag value ...]\n\n"
    "Trains a decoder language model. Writes checkpoints step-00000500.safetensors and so on to DIR, always one\n"
    "after the last step, and steps.jsonl with the exact loss of every step. Ctrl-C, SIGTERM, SIGHUP, SIGUSR1, "
    "SIGUSR2, SIGXCPU and SIGALRM save and\n"
    "end with 128 + signal (Slurm: #SBATCH --signal=USR1@120); --resume then continues bit for bit.\n\n"
    "  strobe lm train --data book.txt --out run --steps 2000 --val-data other.txt\n"
    "  strobe launch -n 4 --max-restarts 3 -- lm train --ddp bucketed --data book.txt --out run\n\n";

std::string ranks_text(const comm::Communicator& ranks, const lm::Settings& settings, const ExchangeFlags& flags) {
  const lm::ParallelOptions exchange = exchange_from(flags);
  std::string text = fmt::format("{}, {} each, {}", ranks.size(), counted(settings.batch / ranks.size(), "sequence"),
                                 exchange.strategy.name);
  if (exchange.strategy.grouping == lm::Grouping::buckets) {
    text += fmt::format(", buckets of {} MB", 1e-6 * static_cast<double>(exchange.bucket_bytes));
  }
  return text;
}

std::string settings_table(const TrainBegin& begin, const TrainFlags& flags, int threads,
                           const comm::Communicator* ranks) {
  const lm::Settings& settings = begin.settings;
  const lm::ModelShape& shape = settings.shape;
  Table table{.columns = {left("setting"), left("value")}};
  const auto row = [&](const char* name, std::string value) { table.cells.push_back({name, std::move(value)}); };
  row("model", fmt::format("{}: d_model {}, d_ff {}, layers {}, heads {}, context {}, vocabulary {}",
                           lm::name_of(shape.architecture), shape.d_model, shape.d_ff, shape.layers, shape.heads,
                           shape.context, shape.vocabulary));
  row("parameters", grouped(lm::parameter_count(shape)));
  row("data",
      fmt::format("{}: {} {} tokens", flags.data, grouped(settings.data.tokens), lm::name_of(settings.data.format)));
  row("batch",
      fmt::format("{}, {} tokens", counted(settings.batch, "sequence"), grouped(settings.batch * shape.context)));
  row("steps", fmt::format("{}, checkpoint every {}", settings.steps, begin.run_options.checkpoint_every));
  row("learning rate", fmt::format("{} after {} of warm-up, then a cosine to {}", settings.rate,
                                   counted(settings.warmup, "step"), settings.least_rate));
  row("AdamW", fmt::format("betas {} and {}, eps {}, decay {}, clip {}", settings.beta1, settings.beta2, settings.eps,
                           settings.decay, settings.clip));
  row("precision", lm::name_of(settings.precision));
  row("device", settings.device == Device::cuda ? "cuda" : "cpu, " + counted(threads, "thread"));
  if (ranks) row("ranks", ranks_text(*ranks, settings, flags.exchange));
  row("recompute", lm::name_of(flags.recompute));
  row("seed", std::to_string(settings.seed));
  return table.text();
}

// Returns the FLOP/s of a large matmul on this device, which is the reference of MFU.
std::optional<double> ceiling_of(const lm::Settings& settings, int threads) {
  const DType types[] = {lm::dtype_of(settings.precision)};
  const bench::Ceilings ceilings =
      settings.device == Device::cuda
          ? bench::measure_gpu_ceilings(
                types, settings.precision == lm::Precision::tf32 ? bench::Depth::full : bench::Depth::brief)
          : bench::measure_ceilings(threads, types, bench::Depth::brief);
  return settings.precision == lm::Precision::tf32 ? ceilings.tf32 : ceilings.matmul(types[0]);
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

// Returns "2 later checkpoints renamed to run/step-00000160.safetensors.abandoned and so on, up to step 170".
std::string aside_text(const lm::CheckpointFolder& folder, const std::vector<std::int64_t>& steps) {
  return fmt::format("{} renamed to {}.abandoned{}", counted(steps.size(), "later checkpoint"),
                     folder.file(steps.front()),
                     steps.size() > 1 ? fmt::format(" and so on, up to step {}", steps.back()) : "");
}

void check_paths(const TrainFlags& flags) {
  if (flags.data.empty()) fail(ErrorCode::invalid_argument, "--data: is missing; valid: a file of training data");
  if (flags.out.empty() && !flags.verify) {
    fail(ErrorCode::invalid_argument, "--out: is missing; valid: a folder for checkpoints");
  }
}

void check_ranks(const TrainFlags& flags) {
  if (flags.exchange.strategy.empty()) {
    refuse_several_ranks("lm train");
    if (flags.exchange.bucket_bytes) exchange_from(flags.exchange);  // throws: no --ddp
    if (flags.exchange.engine != comm::EngineKind::automatic) {
      fail(ErrorCode::invalid_argument, "--engine: nothing is exchanged without --ddp; leave --engine out");
    }
    return;
  }
  check_engine(device_of(flags), flags.exchange.engine);
}

std::unique_ptr<lm::TrainingBackend> make_backend(const lm::Settings& settings, const TrainFlags& flags, int threads,
                                                  comm::Communicator* ranks) {
  const lm::BackendOptions options{.threads = threads, .recompute = flags.recompute};
  if (!ranks) return std::make_unique<lm::SingleBackend>(settings, options);
  return std::make_unique<lm::ParallelBackend>(*ranks, settings, options, exchange_from(flags.exchange));
}

// `ranks` is null for one process.
int train(const TrainFlags& flags, comm::Communicator* ranks) {
  const int threads = threads_of(flags.threads);
  const lm::TokenFile data(flags.data, lm::data_format(flags.data_format, flags.data), "--data");
  TrainBegin begin = begin_training(flags, data, ranks);
  const lm::Settings& settings = begin.settings;
  if (begin.folder) {
    set_signal_message(
        "lm train: ended by a second signal before it had saved; --resume continues from the last checkpoint, if there "
        "is one");
  }
  remember_first_signal();
  if (ranks) {
    check_batch(*ranks, settings.batch);
    check_engine(settings.device, flags.exchange.engine);  // a checkpoint may name another device
    take_gpu(*ranks, settings.device);
  }
  lm::Trainer trainer(settings, data, make_backend(settings, flags, threads, ranks));
  if (begin.progress) {
    trainer.resume(*begin.progress, begin.checkpoint.get());
    begin.checkpoint.reset();
    begin.notes.push_back(fmt::format("resumes after step {}", trainer.progress().step));
  } else {
    trainer.begin();
  }
  lm::CheckpointFolder* const folder = begin.folder.get();  // null on ranks other than 0
  if (folder) {
    const std::vector<std::int64_t> aside = folder->set_aside_after(trainer.progress().step);
    if (!aside.empty()) begin.notes.push_back(aside_text(*folder, aside));
    // From now on, a restart resumes from the newest checkpoint.
    lm::write_run_options(folder->run_options(), begin.run_options);
    print(settings_table(begin, flags, threads, ranks));
    print(note_lines(begin.notes));
  }
  std::optional<double> ceiling;
  if (!flags.quick) ceiling = ceiling_of(settings, threads);  // all ranks measure at the same time, as in training
  if (ceiling && ranks) *ceiling *= ranks->size();
  TrainRun run(trainer, folder, begin.run_options, begin.validation.get(), ceiling);
  if (const int signal = run.go(); signal != 0) return 128 + signal;
  if (!folder) return kFine;
  const std::int64_t taken = trainer.progress().step;
  print(fmt::format("done: {}{}, saved as {}\n", counted(taken, "step"), skipped_text(trainer), folder->file(taken)));
  if (flags.sample_tokens > 0) print_sample(trainer, flags.sample_tokens, threads);
  if (!is_quiet()) {
    print(fitting_line(fmt::format("next: strobe lm sample --checkpoint {0}; strobe report {0}/steps.jsonl",
                                   strobe::quoted(flags.out))));
  }
  return kFine;
}

}  // namespace

int run_lm_train(Arguments arguments) {
  TrainFlags flags;
  OptionTable table;
  add_train_options(table, flags);
  table.check_with([&] { check_paths(flags); });
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print_help(kLmTrainIntroduction + table.help());
    return kFine;
  }
  check_ranks(flags);
  if (flags.verify) return run_lm_verify(flags);
  threads_of(flags.threads);  // throws for an invalid STROBE_THREADS before the ranks connect
  if (flags.exchange.strategy.empty()) return train(flags, nullptr);
  const std::unique_ptr<comm::Communicator> ranks = join_ranks("lm train", flags.exchange.engine);
  return end_together(*ranks, [&] { return train(flags, ranks.get()); });
}

}  // namespace strobe::cli
