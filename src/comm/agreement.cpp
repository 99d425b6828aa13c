// Implements text exchange, settings checks and shared errors with the collectives of a communicator.
#include "comm/agreement.h"

#include <span>
#include <utility>

#include "core/fail.h"

namespace strobe::comm {
namespace {

// Describes the first of this rank's facts that differs from rank 0's. Returns an empty string if all are equal.
std::string difference_of(const World& world, const Json& facts, const Json& root_message) {
  const Json& root_facts = root_message.at("facts");
  for (const auto& [key, value] : facts.as_object()) {
    const Json* other = root_facts.find(key);
    const std::string found = value.dump(), wanted = other ? other->dump() : "missing";
    if (found == wanted) continue;
    return fmt::format("the ranks differ: {} is {} on rank {} ({}) and {} on rank 0 ({})", key, found, world.rank,
                       world.host, wanted, root_message.at("host").as_string());
  }
  return "";
}

[[noreturn]] void refuse_together(Communicator& communicator, ErrorCode code, const std::string& why) {
  try {
    communicator.barrier();  // every rank receives the text before any rank exits
  } catch (const Error&) {
  }
  throw AgreedRefusal(code, why);
}

}  // namespace

std::string broadcast_text(Communicator& communicator, std::string text, int root) {
  std::int64_t size = static_cast<std::int64_t>(text.size());
  communicator.broadcast(elements(std::span(&size, 1)), root);
  text.resize(static_cast<std::size_t>(size));
  communicator.broadcast({.data = text.data(), .count = size, .element = Element::byte}, root);
  return text;
}

std::vector<std::string> gather_texts(Communicator& communicator, const std::string& text) {
  std::vector<std::string> texts;
  for (int rank = 0; rank < communicator.size(); ++rank) texts.push_back(broadcast_text(communicator, text, rank));
  return texts;
}

void while_others_sleep(Communicator& communicator, const std::function<bool()>& advance) {
  for (std::int64_t done = 0; done == 0;) {
    if (communicator.rank() == 0) done = advance() ? 1 : 0;
    communicator.barrier_asleep();
    communicator.broadcast(elements(std::span(&done, 1)));
  }
}

void check_same_facts(Communicator& communicator, const Json& facts) {
  const World& world = communicator.world();
  const Json root_message =
      Json::parse(broadcast_text(communicator, Json::object({{"host", world.host}, {"facts", facts}}).dump()));
  for (const std::string& difference : gather_texts(communicator, difference_of(world, facts, root_message))) {
    if (!difference.empty()) refuse_together(communicator, ErrorCode::invalid_argument, difference);
  }
}

void on_first_rank(Communicator& communicator, const std::function<void()>& work) {
  std::int64_t code = 0;
  std::string refusal;
  try {
    if (communicator.rank() == 0) work();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument && error.code() != ErrorCode::unsupported) throw;
    code = static_cast<std::int64_t>(error.code());
    refusal = error.what();
  }
  communicator.broadcast(elements(std::span(&code, 1)), 0);
  if (code != 0) refuse_together(communicator, static_cast<ErrorCode>(code), broadcast_text(communicator, refusal));
}

}  // namespace strobe::comm
