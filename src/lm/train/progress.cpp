// Checks Progress and converts it to and from JSON.
#include "lm/train/progress.h"

#include "core/fail.h"

namespace strobe::lm {

Json to_json(const LossScale& loss_scale) {
  return Json::object(
      {{"scale", loss_scale.scale}, {"fine_steps", loss_scale.fine_steps}, {"skipped", loss_scale.skipped}});
}

Json to_json(const Progress& progress) {
  return Json::object(
      {{"step", progress.step}, {"data_position", progress.position}, {"loss_scale", to_json(progress.loss_scale)}});
}

LossScale loss_scale_from(const Json& json) {
  return {.scale = json.at("scale").as_number(),
          .fine_steps = json.at("fine_steps").as_integer(),
          .skipped = json.at("skipped").as_integer()};
}

void check(const Progress& progress, const Settings& settings) {
  const LossScale& scale = progress.loss_scale;
  checked(IntegerRange{"step", 0, settings.steps}, progress.step);
  const std::int64_t position = progress.step * settings.batch;  // below 2^54, since both factors are checked
  if (progress.position != position) {
    fail(ErrorCode::invalid_argument, "data_position {}: valid: {}, which is step {} times batch {}", progress.position,
         position, progress.step, settings.batch);
  }
  if (!(scale.scale >= LossScale::kLeast && scale.scale <= LossScale::kMost)) {
    fail(ErrorCode::invalid_argument, "loss scale {}: valid: {} to {}", scale.scale, LossScale::kLeast,
         LossScale::kMost);
  }
  checked(IntegerRange{"fine_steps", 0, LossScale::kPatience - 1}, scale.fine_steps);
  checked(IntegerRange{"skipped", 0, progress.step}, scale.skipped);
}

Progress progress_from(const Json& json, const Settings& settings) {
  const Progress progress{.step = json.at("step").as_integer(),
                          .position = json.at("data_position").as_integer(),
                          .loss_scale = loss_scale_from(json.at("loss_scale"))};
  check(progress, settings);
  return progress;
}

}  // namespace strobe::lm
