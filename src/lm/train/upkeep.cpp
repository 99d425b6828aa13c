// Reads, checks and writes run.json.
#include "lm/train/upkeep.h"

#include <filesystem>

#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/json.h"
#include "core/mapped_file.h"
#include "core/printable.h"

namespace strobe::lm {

Json to_json(const Upkeep& upkeep) {
  Json json = Json::object({{"checkpoint_every", upkeep.checkpoint_every},
                            {"keep", upkeep.keep},
                            {"val_data", upkeep.validation},
                            {"val_every", upkeep.validation_every},
                            {"val_tokens", upkeep.validation_tokens}});
  if (!upkeep.job.empty()) json.set("job", upkeep.job);
  if (upkeep.settings) json.set("settings", to_json(*upkeep.settings));
  return json;
}

Upkeep upkeep_from(const Json& json) {
  const Json *const job = json.find("job"), *const settings = json.find("settings");
  const auto whole = [&](const IntegerRange& range) { return checked(range, json.at(range.key).as_integer()); };
  return {.checkpoint_every = whole(kCheckpointEveryRange),
          .keep = whole(kKeepRange),
          .validation = json.at("val_data").as_string(),
          .validation_every = whole(kValidationEveryRange),
          .validation_tokens =
              json.find(kValidationTokensRange.key) ? whole(kValidationTokensRange) : Upkeep{}.validation_tokens,
          .job = job ? job->as_string() : "",
          .settings = settings ? std::optional(settings_from(*settings)) : std::nullopt};
}

Upkeep read_upkeep(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  const std::string shown = printable_value(path);
  const MappedFile file(path, shown);
  try {
    return upkeep_from(Json::parse(file.text()));
  } catch (const Error& error) {
    fail(ErrorCode::invalid_argument,
         "{}: is damaged: {}; remove it and give --checkpoint-every, --keep and --val-data again if the run had them",
         shown, error.what());
  }
}

void write_upkeep(const std::string& path, const Upkeep& upkeep) {
  AtomicFile(path, "--out", AtomicFile::Links::refuse).commit(to_json(upkeep).dump() + "\n");
}

}  // namespace strobe::lm
