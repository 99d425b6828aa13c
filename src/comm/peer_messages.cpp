// Converts messages between ranks to and from JSON.
#include "comm/peer_messages.h"

#include <fmt/format.h>

#include "core/fail.h"
#include "core/printable.h"
#include "core/sha256.h"
#include "core/utf8.h"

namespace strobe::comm {
namespace {

bool is_text(const Json& value, std::size_t longest) {
  if (!value.is_string() || value.as_string().size() > longest) return false;
  for (std::string_view rest = value.as_string(); !rest.empty();) {
    const std::size_t length = utf8_length(rest);
    if (length == 0) return false;
    rest.remove_prefix(length);
  }
  return true;
}

std::optional<std::string> text_in(const Json& message, const char* key, std::size_t longest) {
  const Json* value = message.is_object() ? message.find(key) : nullptr;
  if (!value || !is_text(*value, longest)) return std::nullopt;
  return value->as_string();
}

std::optional<std::string> hex_in(const Json& message, const char* key, std::size_t digits) {
  std::optional<std::string> text = text_in(message, key, digits);
  if (!text || text->size() != digits || text->find_first_not_of("0123456789abcdef") != std::string::npos)
    return std::nullopt;
  return text;
}

std::optional<std::int64_t> integer_in(const Json& message, const char* key, std::int64_t first, std::int64_t last) {
  const Json* value = message.is_object() ? message.find(key) : nullptr;
  if (!value || !value->is_integer() || value->as_integer() < first || value->as_integer() > last) return std::nullopt;
  return value->as_integer();
}

std::optional<bool> bool_in(const Json& message, const char* key) {
  const Json* value = message.is_object() ? message.find(key) : nullptr;
  if (!value || !value->is_bool()) return std::nullopt;
  return value->as_bool();
}

// Returns null if the key is missing or its value is not an array of this length.
const Json::Array* array_in(const Json& message, const char* key, std::size_t size) {
  const Json* value = message.is_object() ? message.find(key) : nullptr;
  return value && value->is_array() && value->size() == size ? &value->as_array() : nullptr;
}

std::optional<Status> parse_beat(const Json& message, std::size_t count) {
  const Json::Array* calls = array_in(message, "calls", count);
  const auto left = bool_in(message, "left");
  if (!calls || !left) return std::nullopt;
  Beat beat{.calls = {}, .left = *left};
  for (const Json& call : *calls) {
    if (!call.is_integer() || call.as_integer() < 0) return std::nullopt;
    beat.calls.push_back(call.as_integer());
  }
  return beat;
}

struct StatusJson {
  Json operator()(const Failed& failed) const { return Json::object({{"failed", failed.reason}}); }
  Json operator()(const Closed&) const { return Json::object({{"closed", true}}); }
  Json operator()(const Beat& beat) const {
    Json calls = Json::array();
    for (const std::int64_t call : beat.calls) calls.push_back(call);
    return Json::object({{"calls", calls}, {"left", beat.left}});
  }
};

}  // namespace

void fail_as(const Refusal& refusal) {
  fail(refusal.is_bad_input ? ErrorCode::invalid_argument : ErrorCode::runtime, "{}",
       printable(refusal.reason, kLongestReason));
}

Json json_of(const Greeting& message) { return Json::object({{"nonce", message.nonce}}); }

Json json_of(const Challenge& message) { return Json::object({{"nonce", message.nonce}, {"proof", message.proof}}); }

Json json_of(const Presentation& message) {
  return Json::object({{"proof", message.proof},
                       {"rank", message.rank},
                       {"size", message.size},
                       {"host", message.host},
                       {"build", message.build},
                       {"fingerprint", message.fingerprint},
                       {"facts_digest", message.facts_digest}});
}

Json json_of(const Welcome& message) {
  Json hosts = Json::array();
  for (const std::string& host : message.hosts) hosts.push_back(host);
  return Json::object({{"hosts", hosts}, {"shared", message.shared}});
}

Json json_of(const Refusal& message) {
  return Json::object({{"refused", message.reason}, {"bad_input", message.is_bad_input}});
}

Json json_of(const Status& message) { return std::visit(StatusJson(), message); }

std::optional<Greeting> parse_greeting(const Json& message) {
  const auto nonce = hex_in(message, "nonce", kNonceDigits);
  if (!nonce) return std::nullopt;
  return Greeting{*nonce};
}

std::optional<Challenge> parse_challenge(const Json& message) {
  const auto nonce = hex_in(message, "nonce", kNonceDigits), proof = hex_in(message, "proof", kProofDigits);
  if (!nonce || !proof) return std::nullopt;
  return Challenge{*nonce, *proof};
}

std::optional<Presentation> parse_presentation(const Json& message) {
  const auto proof = hex_in(message, "proof", kProofDigits), digest = hex_in(message, "facts_digest", kProofDigits);
  const auto rank = integer_in(message, "rank", 0, kMostRanks - 1), size = integer_in(message, "size", 0, kMostRanks);
  const auto host = text_in(message, "host", kLongestHost), build = text_in(message, "build", kLongestFact),
             fingerprint = text_in(message, "fingerprint", kLongestFact);
  if (!proof || !digest || !rank || !size || !host || !build || !fingerprint) return std::nullopt;
  return Presentation{.proof = *proof,
                      .rank = static_cast<int>(*rank),
                      .size = static_cast<int>(*size),
                      .host = *host,
                      .build = *build,
                      .fingerprint = *fingerprint,
                      .facts_digest = *digest};
}

std::optional<Welcome> parse_welcome(const Json& message, int ranks) {
  if (ranks < 0) return std::nullopt;
  const Json::Array* hosts = array_in(message, "hosts", static_cast<std::size_t>(ranks));
  const auto shared = text_in(message, "shared", kLongestShared);
  if (!hosts || !shared) return std::nullopt;
  Welcome welcome{.hosts = {}, .shared = *shared};
  for (const Json& host : *hosts) {
    if (!is_text(host, kLongestHost)) return std::nullopt;
    welcome.hosts.push_back(host.as_string());
  }
  return welcome;
}

std::optional<Refusal> parse_refusal(const Json& message) {
  const auto reason = text_in(message, "refused", kLongestReason);
  const auto is_bad_input = bool_in(message, "bad_input");
  if (!reason || !is_bad_input) return std::nullopt;
  return Refusal{*reason, *is_bad_input};
}

std::optional<Status> parse_status(const Json& message, std::size_t calls) {
  if (!message.is_object()) return std::nullopt;
  if (message.find("failed")) {
    const auto reason = text_in(message, "failed", kLongestReason);
    if (!reason) return std::nullopt;
    return Failed{*reason};
  }
  if (message.find("closed")) {
    const auto closed = bool_in(message, "closed");
    if (!closed || !*closed) return std::nullopt;
    return Closed{};
  }
  return parse_beat(message, calls);
}

std::string proof_of(std::string_view token, Role role, std::string_view greeting_nonce,
                     std::string_view challenge_nonce, int port, int rank) {
  return hex_of(
      hmac_sha256(token, fmt::format("strobe peers 1|{}|{}|{}|{}|{}", role == Role::rank_0 ? "rank 0" : "member",
                                     greeting_nonce, challenge_nonce, port, rank)));
}

}  // namespace strobe::comm
