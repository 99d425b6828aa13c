// Messages between rank 0 and the other ranks, as JSON. Each parser checks every field and returns nullopt if a field
// is missing, has the wrong type, is too long or is out of range. handshake.cpp and peers.cpp use them.
//
//   rank r -> rank 0   Greeting
//   rank 0 -> rank r   Challenge     with rank 0's proof that it knows the token
//   rank r -> rank 0   Presentation  with the proof of rank r
//   rank 0 -> rank r   Welcome or Refusal
//   both, repeatedly   Status
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/json.h"

namespace strobe::comm {

inline constexpr int kMostRanks = 1 << 20;
inline constexpr std::size_t kLongestHost = 256, kLongestFact = 4096, kLongestReason = 4096;  // bytes
inline constexpr std::size_t kLongestShared = 1 << 16;
inline constexpr std::size_t kNonceDigits = 32, kProofDigits = 64;  // lower-case hexadecimal
inline constexpr std::size_t kLongestHandshakeLine = 1 << 15;       // from an unauthenticated peer

struct Greeting {
  std::string nonce;
};
struct Challenge {
  std::string nonce, proof;
};
// `build` and `fingerprint` are shortened, for error messages; `facts_digest` is the SHA-256 of both complete texts.
struct Presentation {
  std::string proof;
  int rank = 0, size = 0;
  std::string host, build, fingerprint, facts_digest;
};
struct Welcome {
  std::vector<std::string> hosts;  // one per rank
  std::string shared;              // a text that rank 0 sends to all ranks
};
struct Refusal {
  std::string reason;
  bool is_bad_input = false;  // true: the ranks' settings differ; false: any other failure, such as a missing rank
};

struct Failed {
  std::string reason;
};
// From rank 0: all ranks have left, and the connections close.
struct Closed {};
// Heartbeat. An entry of `calls` is the number of the latest call that a rank has entered. Rank 0 sends one entry per
// rank. Other ranks send one entry, their own.
struct Beat {
  std::vector<std::int64_t> calls;
  bool left = false;  // the sender makes no more calls
};
using Status = std::variant<Failed, Closed, Beat>;

[[noreturn]] void fail_as(const Refusal& refusal);  // throws invalid_argument if is_bad_input, otherwise runtime

Json json_of(const Greeting& message);
Json json_of(const Challenge& message);
Json json_of(const Presentation& message);
Json json_of(const Welcome& message);
Json json_of(const Refusal& message);
Json json_of(const Status& message);

std::optional<Greeting> parse_greeting(const Json& message);
std::optional<Challenge> parse_challenge(const Json& message);
std::optional<Presentation> parse_presentation(const Json& message);
std::optional<Welcome> parse_welcome(const Json& message, int ranks);
std::optional<Refusal> parse_refusal(const Json& message);
std::optional<Status> parse_status(const Json& message, std::size_t calls);  // a Beat must have `calls` entries

// Returns the HMAC-SHA256, with the token as key, of both nonces, the sender's role, rank 0's port and the sender's
// rank. A proof can therefore be neither replayed nor reflected.
enum class Role { rank_0, member };
std::string proof_of(std::string_view token, Role role, std::string_view greeting_nonce,
                     std::string_view challenge_nonce, int port, int rank);

}  // namespace strobe::comm
