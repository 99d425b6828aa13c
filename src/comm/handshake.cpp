// Implements both sides of the handshake between ranks: Reception on rank 0, join_rank_0() on the other ranks.
#include "comm/handshake.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "core/clock.h"
#include "core/fail.h"
#include "core/printable.h"
#include "core/token.h"

namespace strobe::comm {
namespace {

constexpr double kStrangerLimit = 10;  // seconds that an unauthenticated connection has to authenticate
constexpr std::size_t kSpareStrangers = 64;

enum class Answer { none, false_proof };

// The connecting side of a handshake: sends the greeting, checks rank 0's proof, sends the presentation.
bool prove(Channel& channel, const World& world, Presentation& presentation, const Meeting& meeting, Answer& answer) {
  const std::string nonce = random_hex();
  channel.send(json_of(Greeting{nonce}));
  const std::optional<Json> reply = channel.next(std::min(meeting.until, now_seconds() + meeting.patience));
  if (!reply) return false;
  const std::optional<Challenge> challenge = parse_challenge(*reply);
  const bool proved =
      challenge && equal_in_constant_time(
                       challenge->proof, proof_of(world.token, Role::rank_0, nonce, challenge->nonce, meeting.port, 0));
  if (!proved) {
    answer = Answer::false_proof;
    return false;
  }
  presentation.proof = proof_of(world.token, Role::member, nonce, challenge->nonce, meeting.port, presentation.rank);
  return channel.send(json_of(presentation));
}

}  // namespace

Reception::Reception(Listener& listener, const World& world) : listener_(listener), world_(world) {}

void Reception::accept_all() {
  while (std::optional<Channel> channel = listener_.accept(kLongestHandshakeLine)) {
    strangers_.push_back({.channel = std::move(*channel),
                          .until = now_seconds() + kStrangerLimit,
                          .greeting_nonce = "",
                          .own_nonce = ""});
    if (strangers_.size() > static_cast<std::size_t>(world_.size) + kSpareStrangers)
      strangers_.erase(strangers_.begin());  // the oldest
  }
}

// Reads the next messages of an unauthenticated connection and returns its rank once authenticated. Closes the channel
// at the first invalid message.
std::optional<Guest> Reception::hear(Stranger& stranger) {
  while (const std::optional<Json> message = stranger.channel.next()) {
    const bool is_first = stranger.own_nonce.empty();
    if (is_first && !challenge(stranger, parse_greeting(*message))) stranger.channel.refuse();
    if (is_first) continue;
    std::optional<Presentation> presentation = parse_presentation(*message);
    if (presentation && is_proved(stranger, *presentation)) {
      stranger.channel.set_longest(kLongestLine);
      return Guest{std::move(*presentation), std::move(stranger.channel)};
    }
    stranger.channel.refuse();
  }
  return std::nullopt;
}

bool Reception::challenge(Stranger& stranger, const std::optional<Greeting>& greeting) const {
  if (!greeting) return false;
  stranger.greeting_nonce = greeting->nonce;
  stranger.own_nonce = random_hex();
  const std::string proof =
      proof_of(world_.token, Role::rank_0, greeting->nonce, stranger.own_nonce, listener_.port(), 0);
  return stranger.channel.send(json_of(Challenge{stranger.own_nonce, proof}));
}

bool Reception::is_proved(const Stranger& stranger, const Presentation& presentation) const {
  const std::string proof = proof_of(world_.token, Role::member, stranger.greeting_nonce, stranger.own_nonce,
                                     listener_.port(), presentation.rank);
  return equal_in_constant_time(presentation.proof, proof);
}

std::vector<Guest> Reception::wait(double until) {
  std::vector<Guest> guests;
  do {
    std::vector<pollfd> entries{{.fd = listener_.descriptor(), .events = POLLIN, .revents = 0}};
    for (const Stranger& one : strangers_)
      entries.push_back({.fd = one.channel.descriptor(), .events = POLLIN, .revents = 0});
    double next = until;
    for (const Stranger& one : strangers_) next = std::min(next, one.until);
    poll(entries.data(), entries.size(), milliseconds_until(next));
    accept_all();
    for (Stranger& one : strangers_) {
      if (std::optional<Guest> guest = hear(one)) guests.push_back(std::move(*guest));
    }
    std::erase_if(strangers_, [](const Stranger& one) {
      return one.channel.descriptor() < 0 || one.channel.ended() || one.until <= now_seconds();
    });
  } while (guests.empty() && now_seconds() < until);
  return guests;
}

Channel join_rank_0(const World& world, Presentation presentation, const Meeting& meeting) {
  const auto where = [&] { return fmt::format("{} port {}", printable(meeting.addresses), meeting.port); };
  double until = meeting.until;
  Answer answer = Answer::none;
  const double begin = now_seconds();
  do {
    std::istringstream addresses(meeting.addresses);
    for (std::string address; addresses >> address;) {
      std::optional<Channel> channel = connect_once(address, meeting.port, until);
      if (channel && prove(*channel, world, presentation, meeting, answer)) return std::move(*channel);
    }
    if (answer == Answer::false_proof) until = std::min(until, begin + meeting.patience);
    usleep(50'000);  // rank 0 may not be listening yet
  } while (now_seconds() < until);
  if (answer == Answer::false_proof)
    fail(ErrorCode::runtime, "the listener at {} is not rank 0 of this job: it does not know {}", where(),
         kTokenVariable);
  fail(ErrorCode::runtime, "cannot reach rank 0 at {} within {:g} s", where(), now_seconds() - begin);
}

}  // namespace strobe::comm
