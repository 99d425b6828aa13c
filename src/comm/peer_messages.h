// Messages between rank 0 and the other ranks, as JSON. Each parser is a pure function that checks every field. It
// returns nullopt if a field is missing, has the wrong type, is too long or is out of range. handshake.cpp and
// peers.cpp use them.
//
//   rank r -> rank 0   Greeting
//   rank 0 -> rank r   Challenge     with rank 0's proof that it knows the token
//   rank r -> rank 0   Presentation  with the proof of rank r
//   rank 0 -> rank r   Welcome or Refusal
//   both, afterwards   Status
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
// `facts_digest` covers the full build and fingerprint; their texts here are excerpts for an error message.
struct Presentation {
  std::string proof;
  int rank = 0, size = 0;
  std::string host, build, fingerprint, facts_digest;
};
struct Welcome {
  std::vector<std::string> hosts;  // one per rank
  std::string shared;              // rank 0's text for all
};
struct Refusal {
  std::string reason;
  bool is_bad_input = false;  // true if the ranks' settings differ; false if a rank is missing
};

struct Failed {
  std::string reason;
};
struct Closed {};
// Heartbeat: the latest call that each rank has entered. Rank 0 sends those of all ranks, another rank only its own.
struct Beat {
  std::vector<std::int64_t> calls;
  bool left = false;
};
using Status = std::variant<Failed, Closed, Beat>;

[[noreturn]] void fail_as(const Refusal& refusal);  // throws Error(invalid_argument) or Error(runtime)

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
std::optional<Status> parse_status(const Json& message, std::size_t calls);  // a beat must have `calls` calls

// Proofs bind both nonces, the sender's role and rank 0's port, so that none can be replayed or reflected.
enum class Role { rank_0, member };
std::string proof_of(std::string_view token, Role role, std::string_view greeting_nonce,
                     std::string_view challenge_nonce, int port, int rank);

}  // namespace strobe::comm
