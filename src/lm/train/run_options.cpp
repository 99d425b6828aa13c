// Reads, checks and writes run.json.
#include "lm/train/run_options.h"

#include <filesystem>

#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/json.h"
#include "core/mapped_file.h"
#include "core/printable.h"

namespace strobe::lm {

Json to_json(const RunOptions& run_options) {
  Json json = Json::object({{"checkpoint_every", run_options.checkpoint_every},
                            {"keep", run_options.keep},
                            {"val_data", run_options.validation},
                            {"val_every", run_options.validation_every},
                            {"val_tokens", run_options.validation_tokens}});
  if (!run_options.job.empty()) json.set("job", run_options.job);
  if (run_options.settings) json.set("settings", to_json(*run_options.settings));
  return json;
}

RunOptions run_options_from(const Json& json) {
  const Json *const job = json.find("job"), *const settings = json.find("settings");
  const auto whole = [&](const IntegerRange& range) { return checked(range, json.at(range.key).as_integer()); };
  return {.checkpoint_every = whole(kCheckpointEveryRange),
          .keep = whole(kKeepRange),
          .validation = json.at("val_data").as_string(),
          .validation_every = whole(kValidationEveryRange),
          .validation_tokens =
              json.find(kValidationTokensRange.key) ? whole(kValidationTokensRange) : RunOptions{}.validation_tokens,
          .job = job ? job->as_string() : "",
          .settings = settings ? std::optional(settings_from(*settings)) : std::nullopt};
}

RunOptions read_run_options(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  const std::string shown = printable_value(path);
  const MappedFile file(path, shown);
  try {
    return run_options_from(Json::parse(file.text()));
  } catch (const Error& error) {
    fail(ErrorCode::invalid_argument,
         "{}: is damaged: {}; remove it and give --checkpoint-every, --keep and --val-data again if the run had them",
         shown, error.what());
  }
}

void write_run_options(const std::string& path, const RunOptions& run_options) {
  AtomicFile(path, "--out", AtomicFile::Links::refuse).commit(to_json(run_options).dump() + "\n");
}

}  // namespace strobe::lm
