// The training loop of `strobe lm train`: steps, log lines, checkpoints, validation and signals.
#include "cli/lm/train.h"

#include <fmt/format.h>

#include <cmath>

#include "app/progress.h"
#include "app/signals.h"
#include "app/terminal.h"
#include "comm/agreement.h"
#include "core/clock.h"
#include "core/counted.h"
#include "core/fail.h"
#include "core/json.h"
#include "core/printable.h"
#include "core/short_number.h"
#include "lm/profile/step_bench.h"

namespace strobe::cli {
namespace {

Json row_of(const lm::TrainStep& step, double seconds, std::int64_t tokens) {
  Json row = Json::object({{"step", step.step},
                           {"loss", step.loss},
                           {"gradient_norm", step.gradient_norm},
                           {"lr", step.rate},
                           {"seconds", seconds},
                           {"tokens", tokens}});
  if (step.skipped) row.set("skipped", true);
  if (step.skipped_in_all) row.set("skipped_in_all", *step.skipped_in_all);
  if (const std::optional<lm::StepSplit>& split = step.split) {
    row.set("split", Json::object({{"forward", split->forward},
                                   {"backward", split->backward},
                                   {"exposed", split->exposed},
                                   {"hidden", split->hidden},
                                   {"optimizer", split->optimizer},
                                   {"calls", split->calls},
                                   {"bytes", split->bytes}}));
  }
  return row;
}

}  // namespace

std::string skipped_text(const lm::Trainer& trainer) {
  if (trainer.settings().precision != lm::Precision::fp16) return "";
  return fmt::format(", {} skipped", trainer.progress().loss_scale.skipped);
}

TrainRun::TrainRun(lm::Trainer& trainer, lm::CheckpointFolder* folder, const lm::RunOptions& run_options,
                   const lm::TokenFile* validation, std::optional<double> ceiling)
    : trainer_(trainer),
      folder_(folder),
      run_options_(run_options),
      validation_(validation),
      ceiling_(ceiling),
      first_(trainer.progress().step),
      saved_(first_),
      finite_step_(first_),
      start_(now_seconds()) {
  if (folder_) log_.emplace(folder_->step_log(), first_);
}

int TrainRun::go() {
  try {
    return run_steps();
  } catch (const lm::DivergedError& error) {
    show_progress("");
    // Loss and norm are sums over all ranks, so every rank throws here. No rank may abort the job before rank 0 has
    // renamed the checkpoints.
    throw comm::AgreedRefusal(ErrorCode::runtime, error.what() + way_back());
  }
}

int TrainRun::run_steps() {
  while (!trainer_.done()) {
    if (const int signal = trainer_.backend().agreed(remembered_signal()); signal != 0) return stop(signal);
    take_step();
  }
  show_progress("");
  return 0;
}

void TrainRun::take_step() {
  const double begin = now_seconds();
  const lm::TrainStep step = trainer_.step();
  const double seconds = now_seconds() - begin;
  if (!step.skipped) finite_step_ = step.step;
  if (log_) {
    const lm::Settings& settings = trainer_.settings();
    log_->append(row_of(step, seconds, settings.batch * settings.shape.context));
    print_step(step, seconds);
    warn_if_loss_explodes(step);
  }
  if (newest_is_unproven_ && !step.skipped) {
    newest_is_unproven_ = false;
    remove_old_checkpoints();
  }
  const bool done = trainer_.done();
  const bool due = run_options_.checkpoint_every > 0 && step.step % run_options_.checkpoint_every == 0;
  const bool validates = run_options_.validation_every > 0 ? step.step % run_options_.validation_every == 0 : due;
  if (validation_ && (validates || done)) validate();
  if (done) {
    trainer_.check_last_step();
    finite_step_ = step.step + 1;
  }
  if (due || done) save();
}

void TrainRun::save() {
  const std::int64_t step = trainer_.progress().step;
  if (log_) log_->sync();
  trainer_.save(folder_ ? folder_->file(step) : "");
  saved_ = step;
  newest_is_unproven_ = step >= finite_step_;
  remove_old_checkpoints();
}

void TrainRun::remove_old_checkpoints() {
  if (folder_ && run_options_.keep > 0) folder_->keep_newest(run_options_.keep, saved_, finite_step_);
}

// Returns the end of the error for a diverged run: "; run/step-00000100.safetensors is the newest checkpoint known to
// be good: ...". Renames later checkpoints, or all if none is good.
std::string TrainRun::way_back() const {
  if (!folder_) return "";  // only rank 0 has a folder and prints the message
  const std::optional<std::int64_t> good = folder_->newest_good(finite_step_);
  std::string aside;
  try {
    const std::vector<std::int64_t> later = folder_->set_aside_after(good.value_or(-1));
    const std::string count = good ? counted(later.size(), "later one") : std::to_string(later.size());
    if (!later.empty()) aside = fmt::format(", {} set aside as .abandoned", count);
  } catch (const Error& error) {  // the message about the divergence is more important
    aside = fmt::format(", later ones stay ({})", error.what());
  }
  if (!good) {
    return fmt::format("; no checkpoint is known to be good{}: train in another folder with a lower --lr or --clip",
                       aside);
  }
  return fmt::format("; {} is the newest checkpoint known to be good{}: --resume={} --lr {} continues there",
                     printable_value(folder_->file(*good)), aside, *good, trainer_.settings().rate / 10);
}

void TrainRun::validate() {
  const lm::Validation result = trainer_.validate(*validation_, run_options_.validation_tokens);
  const std::int64_t step = trainer_.progress().step;
  if (!log_) return;
  const bool is_text = validation_->format() == lm::DataFormat::text;
  log_->append(Json::object({{"step", step},
                             {"validation_loss", result.loss},
                             {"validation_tokens", result.tokens},
                             {"perplexity", result.perplexity()},
                             {is_text ? "bits_per_byte" : "bits_per_token", result.bits()}}));
  show_progress("");
  print(fmt::format("step {}: validation loss {:.5f}  perplexity {:.4g}  {:.4f} bits per {}  {} of {} tokens\n", step,
                    result.loss, result.perplexity(), result.bits(), is_text ? "byte" : "token", result.tokens,
                    result.of));
}

int TrainRun::stop(int signal) {
  const std::int64_t step = trainer_.progress().step;
  if (step != saved_) save();
  if (!folder_) return signal;
  show_progress("");
  print(step == 0 ? "stopped by a signal before the first step\n"
                  : fmt::format("stopped by a signal after step {}{}, saved as {}; --resume continues\n", step,
                                skipped_text(trainer_), folder_->file(step)));
  return signal;
}

void TrainRun::print_step(const lm::TrainStep& step, double seconds) const {
  const lm::Settings& settings = trainer_.settings();
  const double tokens = static_cast<double>(settings.batch * settings.shape.context);
  const double flops = lm::flops_of({.shape = settings.shape, .batch = settings.batch});
  const std::string share = ceiling_ ? fmt::format("{:.0f} %", 100 * flops / seconds / *ceiling_) : "-";
  const std::string skipped = step.skipped
                                  ? fmt::format("  skipped, {} in all: the gradient overflowed, loss scale now {}",
                                                *step.skipped_in_all, trainer_.progress().loss_scale.scale)
                                  : "";
  show_progress("");
  print(fitting_line(fmt::format("step {}/{}  loss {:.4f}  norm {:.2f}  lr {:.1e}  {} ms  {:.0f} tok/s  MFU {}{}",
                                 step.step, settings.steps, step.loss, step.gradient_norm, step.rate,
                                 short_number(1e3 * seconds), tokens / seconds, share, skipped)));
  if (!shows_progress()) return;
  const double each = (now_seconds() - start_) / static_cast<double>(step.step - first_);
  show_fitting_progress(
      fmt::format("{}, {} left; loss {:.4f}",
                  bar_text(static_cast<std::size_t>(step.step), static_cast<std::size_t>(settings.steps)),
                  duration_text(each * static_cast<double>(settings.steps - step.step)), step.loss));
}

// An untrained model has the loss of a uniform guess, log(vocabulary). Warns once if the loss exceeds 1.5 times that
// value, because training then diverges.
void TrainRun::warn_if_loss_explodes(const lm::TrainStep& step) {
  constexpr double kMostTimes = 1.5;
  const double guess = std::log(static_cast<double>(trainer_.settings().shape.vocabulary));
  if (warned_ || step.skipped || step.loss <= kMostTimes * guess) return;
  warned_ = true;
  print(
      note_lines({fmt::format("step {}: the loss explodes: {:.4g}, a uniform guess has {:.4g}; stop, and train with a "
                              "lower --lr (now {}) or --clip, or a longer --lr-warmup",
                              step.step, step.loss, guess, trainer_.settings().rate)}));
}

}  // namespace strobe::cli
