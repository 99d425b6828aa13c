// Prepares a training run, new or resumed: its folder, settings and validation data.
#include "cli/lm/train.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <utility>

#include "comm/agreement.h"
#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/printable.h"

namespace strobe::cli {
namespace {

std::string environment_word(const char* name) {
  const char* const value = getenv(name);
  return value ? value : "";
}

// Returns the id of the `strobe launch` job, which all its restarts share; empty outside of a job.
std::string own_job() { return environment_word("STROBE_JOB"); }

// Returns true if `strobe launch --max-restarts` has restarted this process and an earlier start of the same job
// trained in the folder. In all other cases the flags decide whether to resume.
bool is_restart_in(const std::string& folder) {
  const std::string restarts = environment_word("STROBE_RESTARTS");
  if (own_job().empty() || restarts.empty() || restarts == "0") return false;
  return lm::read_run_options(lm::run_options_path(folder)).job == own_job();
}

// Checks before the first step that the folder has room for a checkpoint.
void check_folder(const lm::CheckpointFolder& folder, const lm::Settings& settings) {
  AtomicFile(folder.file(settings.steps), "--out").check_room(lm::checkpoint_bytes(settings.shape));
}

void check_data(const lm::TokenFile& file, const lm::Settings& settings) {
  file.windows(settings.shape.context);
  file.check_vocabulary(settings.shape.vocabulary);
}

// Opens the validation data of the run; null if there is none.
std::unique_ptr<lm::TokenFile> open_validation(const TrainFlags& flags, const lm::RunOptions& run_options,
                                               const lm::Settings& settings) {
  const std::string& path = run_options.validation;
  if (path.empty()) return nullptr;
  const std::string asked_by = flags.validation.empty() ? "the run's --val-data" : "--val-data";
  const lm::DataFormat format = lm::data_format(flags.data_format, path);
  if (format != settings.data.format) {
    fail(ErrorCode::invalid_argument,
         "{} {}: has format {} by its name, but --data has format {}; set --data-format for both", asked_by,
         printable_value(path), lm::name_of(format), lm::name_of(settings.data.format));
  }
  auto file = std::make_unique<lm::TokenFile>(path, format, asked_by);
  check_data(*file, settings);
  return file;
}

// Throws if --steps is below the number of steps already taken.
void check_steps(const lm::Settings& settings, const lm::Progress& progress) {
  if (settings.steps >= progress.step) return;
  fail(ErrorCode::invalid_argument, "--steps {}: the checkpoint is at step {}; valid: that many or more",
       settings.steps, progress.step);
}

// Returns the newest checkpoint that can be read; null if the folder has none. A restart cannot ask the user, so
// damaged checkpoints are skipped with a note. Throws if all are damaged: the cause may be temporary, so the run must
// not start over.
std::unique_ptr<lm::Checkpoint> newest_whole(const std::string& folder, std::vector<std::string>& notes) {
  std::vector<std::int64_t> steps = lm::checkpoint_steps(folder);
  std::string newest;  // why the newest cannot be read
  for (; !steps.empty(); steps.pop_back()) {
    try {
      return std::make_unique<lm::Checkpoint>(lm::checkpoint_path(folder, steps.back()));
    } catch (const Error& error) {
      if (newest.empty()) newest = error.what();
      notes.push_back(fmt::format("skipped: {}", error.what()));
    }
  }
  if (newest.empty()) return nullptr;
  fail(ErrorCode::invalid_argument, "--out {}: none of its checkpoints can be read, the newest: {}; {}",
       printable_value(folder), newest, "valid: a folder with a readable checkpoint, or a new folder");
}

// Decides whether the run is new or resumed, and opens its folder, checkpoint and validation data. Called in a single
// process, or on rank 0.
TrainBegin decided_begin(const TrainFlags& flags, const lm::TokenFile& data) {
  TrainBegin begin;
  const bool restart = is_restart_in(flags.out);
  if (flags.resume || restart) {
    begin.folder = std::make_unique<lm::CheckpointFolder>(flags.out, lm::CheckpointFolder::Use::resume);
    begin.checkpoint =
        restart ? newest_whole(flags.out, begin.notes)
                : lm::open_checkpoint(flags.out, flags.resume_step, lm::CheckpointParts::all, [](std::int64_t step) {
                    return fmt::format("--resume={} continues from there", step);
                  });
    if (!begin.checkpoint) begin.notes.push_back("no checkpoint in " + flags.out + " yet: starts at step 0");
    begin.run_options = lm::read_run_options(begin.folder->run_options());
  }
  begin.run_options = run_options_from(flags, begin.run_options);
  begin.run_options.job = own_job();
  const lm::DataIdentity identity = lm::identity_of(data);
  if (begin.checkpoint) begin.run_options.settings = begin.checkpoint->settings();
  begin.settings = begin.run_options.settings ? settings_from(flags, identity, *begin.run_options.settings, begin.notes)
                                              : settings_from(flags, identity);
  begin.run_options.settings = begin.settings;
  if (begin.checkpoint) {
    begin.progress = begin.checkpoint->progress();
    check_steps(begin.settings, *begin.progress);
  }
  check_data(data, begin.settings);
  begin.validation = open_validation(flags, begin.run_options, begin.settings);
  if (!begin.folder) {
    begin.folder = std::make_unique<lm::CheckpointFolder>(flags.out, lm::CheckpointFolder::Use::fresh);
  }
  check_folder(*begin.folder, begin.settings);
  return begin;
}

std::string text_of(const TrainBegin& begin) {
  return Json::object({{"settings", lm::to_json(begin.settings)},
                       {"run_options", lm::to_json(begin.run_options)},
                       {"progress", begin.progress ? lm::to_json(*begin.progress) : Json()}})
      .dump();
}

TrainBegin received_begin(const TrainFlags& flags, const lm::TokenFile& data, const std::string& text) {
  const Json received = Json::parse(text);
  TrainBegin begin;
  begin.settings = lm::settings_from(received.at("settings"));
  begin.run_options = lm::run_options_from(received.at("run_options"));
  if (!received.at("progress").is_null()) begin.progress = lm::progress_from(received.at("progress"), begin.settings);
  check_data(data, begin.settings);
  begin.validation = open_validation(flags, begin.run_options, begin.settings);
  return begin;
}

// Throws unless all ranks have the same validation data: hosts with different files would validate on different
// batches.
void check_validation(const TrainBegin& begin, comm::Communicator& ranks) {
  const lm::DataIdentity identity = begin.validation ? lm::identity_of(*begin.validation) : lm::DataIdentity{};
  comm::check_same_facts(ranks, Json::object({{"tokens of --val-data", identity.tokens},
                                              {"crc32 of --val-data", static_cast<std::int64_t>(identity.checksum)}}));
}

}  // namespace

TrainBegin begin_training(const TrainFlags& flags, const lm::TokenFile& data, comm::Communicator* ranks) {
  if (!ranks) return decided_begin(flags, data);
  comm::check_same_facts(*ranks, facts_of(flags, lm::identity_of(data)));
  TrainBegin begin;
  comm::on_first_rank(*ranks, [&] { begin = decided_begin(flags, data); });
  if (ranks->rank() == 0) {
    comm::broadcast_text(*ranks, text_of(begin));
  } else {
    begin = received_begin(flags, data, comm::broadcast_text(*ranks, ""));
  }
  check_validation(begin, *ranks);
  return begin;
}

}  // namespace strobe::cli
