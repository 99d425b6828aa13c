// Reads any bytes as lines from another rank. Each message parser must reject a line, or return a message within its
// limits that is the same after writing and reading. Called by libFuzzer (tests/fuzz) and by the test that replays its
// corpus.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "comm/peer_messages.h"
#include "strobe/error.h"

namespace strobe::test {

inline void require(bool condition) {
  if (!condition) std::abort();
}

template <class Message, class Parse>
int taken_by(const std::optional<Message>& message, Parse parse) {
  if (!message) return 0;
  const std::string text = comm::json_of(*message).dump();
  const std::optional<Message> again = parse(Json::parse(text));
  require(again && comm::json_of(*again).dump() == text);
  return 1;
}

inline int taken_from_line(std::string_view line) {
  Json message;
  try {
    message = Json::parse(line);
  } catch (const Error&) {
    return 0;
  }
  int taken = taken_by(comm::parse_greeting(message), comm::parse_greeting);
  taken += taken_by(comm::parse_challenge(message), comm::parse_challenge);
  const auto presentation = comm::parse_presentation(message);
  if (presentation) require(presentation->rank >= 0 && presentation->rank < comm::kMostRanks);
  taken += taken_by(presentation, comm::parse_presentation);
  taken += taken_by(comm::parse_refusal(message), comm::parse_refusal);
  for (const int ranks : {1, 2, 3}) {
    const auto welcome = [&](const Json& json) { return comm::parse_welcome(json, ranks); };
    if (const auto found = welcome(message)) require(found->hosts.size() == static_cast<std::size_t>(ranks));
    taken += taken_by(welcome(message), welcome);
    const auto status = [&](const Json& json) { return comm::parse_status(json, static_cast<std::size_t>(ranks)); };
    if (const auto found = status(message)) {
      const auto* beat = std::get_if<comm::Beat>(&*found);
      require(!beat || beat->calls.size() == static_cast<std::size_t>(ranks));
    }
    taken += taken_by(status(message), status);
  }
  return taken;
}

// Returns the number of times that a parser accepted a line.
inline int fuzz_peer_messages(const std::uint8_t* data, std::size_t bytes) {
  int taken = 0;
  std::string_view text(reinterpret_cast<const char*>(data), bytes);
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    taken += taken_from_line(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return taken;
}

}  // namespace strobe::test
