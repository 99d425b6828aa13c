// Implements `strobe lm train --verify`, which compares data-parallel training with one process.
#include "cli/lm/train.h"

#include <fmt/format.h>

#include "app/common_options.h"
#include "app/program.h"
#include "app/terminal.h"
#include "cli/lm/ranks.h"
#include "comm/agreement.h"
#include "core/counted.h"
#include "core/fail.h"
#include "lm/data_parallel/verify.h"
#include "results/table.h"

namespace strobe::cli {
namespace {

constexpr std::int64_t kVerifySteps = 5;

std::string losses_table(const lm::Verification& verification, int ranks) {
  Table table{.columns = {"step", "one process", counted(ranks, "rank"), "difference"}};
  for (std::size_t i = 0; i < verification.alone.size(); ++i) {
    table.cells.push_back({std::to_string(i + 1), fmt::format("{:.9f}", verification.alone[i]),
                           fmt::format("{:.9f}", verification.ranks[i]),
                           fmt::format("{:.1e}", verification.ranks[i] - verification.alone[i])});
  }
  return table.text();
}

std::string parameters_table(const lm::Verification& verification) {
  Table table{.columns = {left("parameter"), "largest difference", "mean difference", "relative to norm"}};
  for (const lm::ParameterDifference& one : verification.parameters) {
    table.cells.push_back({one.name, fmt::format("{:.2e}", one.largest), fmt::format("{:.2e}", one.mean),
                           fmt::format("{:.2e}", one.relative)});
  }
  return table.text();
}

std::string verdict_of(const lm::Verification& verification) {
  std::string text = fmt::format("{}: {}: largest relative difference from one process: losses {:.1e} (at most {:g})",
                                 verification.model, verification.holds() ? "fine" : "WRONG", verification.losses,
                                 verification.bounds.losses);
  text += fmt::format(", parameters {:.1e}", verification.weights);
  if (verification.bounds.weights) text += fmt::format(" (at most {:g})", *verification.bounds.weights);
  if (verification.skipped > 0) text += fmt::format("; {} skipped", counted(verification.skipped, "step"));
  if (!verification.unsharded.empty()) {
    text += fmt::format("; largest difference from {}: {:.1e} (at most {:g})", verification.unsharded,
                        verification.from_unsharded, verification.most_from_unsharded);
  }
  if (verification.other_ranks == 0) return text + "; all ranks have the same bits\n";
  return text +
         fmt::format("; {} with parameters that differ from rank 0\n", counted(verification.other_ranks, "rank"));
}

void check_verify_flags(const TrainFlags& flags) {
  if (flags.exchange.strategy.empty())
    fail(ErrorCode::invalid_argument, "--verify: compares ranks with one process; valid with --ddp NAME");
  const auto refuse_if = [](bool given, const char* flag) {
    if (given)
      fail(ErrorCode::invalid_argument, "{}: --verify writes no checkpoint and validates nothing; leave it out", flag);
  };
  refuse_if(!flags.out.empty(), "--out");
  refuse_if(flags.resume, "--resume");
  refuse_if(flags.checkpoint_every.has_value(), "--checkpoint-every");
  refuse_if(flags.keep.has_value(), "--keep");
  refuse_if(!flags.validation.empty(), "--val-data");
  refuse_if(flags.validation_every.has_value(), "--val-every");
  refuse_if(flags.validation_tokens.has_value(), "--val-tokens");
}

int verify_on(comm::Communicator& ranks, const TrainFlags& flags, const lm::ParallelOptions& exchange, int threads) {
  const lm::TokenFile data(flags.data, lm::data_format(flags.data_format, flags.data), "--data");
  const lm::DataIdentity identity = lm::identity_of(data);
  TrainFlags few = flags;
  if (!few.settings.has("steps")) {
    few.settings.values.steps = kVerifySteps;
    few.settings.keys.emplace_back("steps");
  }
  comm::check_same_facts(ranks, facts_of(few, identity));
  const lm::Settings settings = settings_from(few, identity);
  data.check_vocabulary(settings.shape.vocabulary);
  check_batch(ranks, settings.batch);
  take_gpu(ranks, settings.device);
  const lm::Verification verifications[] = {
      lm::verify_language_model(ranks, settings, data, {.threads = threads, .recompute = flags.recompute}, exchange),
      lm::verify_toy_mlp(ranks, settings.steps, exchange)};
  if (ranks.rank() != 0) return kFine;
  bool holds = true;
  for (const lm::Verification& one : verifications) {
    print(one.model + "\n" + losses_table(one, ranks.size()) + parameters_table(one) + "\n");
    holds = holds && one.holds();
  }
  for (const lm::Verification& one : verifications) print(verdict_of(one));
  return holds ? kFine : kFailedCheck;
}

}  // namespace

int run_lm_verify(const TrainFlags& flags) {
  check_verify_flags(flags);
  const lm::ParallelOptions exchange = exchange_from(flags.exchange);
  const int threads = threads_of(flags.threads);
  const std::unique_ptr<comm::Communicator> ranks = join_ranks("lm train --verify", flags.exchange.engine);
  return end_together(*ranks, [&] { return verify_on(*ranks, flags, exchange, threads); });
}

}  // namespace strobe::cli
