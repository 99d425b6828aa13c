// Tests messages between ranks: types, ranges and lengths of their fields, and the proofs of the token.
#include "comm/peer_messages.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/fuzz_peer_messages.h"

namespace strobe::test {
namespace {

const std::string kNonce(comm::kNonceDigits, 'a'), kProof(comm::kProofDigits, 'b');

Json presentation() {
  return comm::json_of(comm::Presentation{.proof = kProof,
                                          .rank = 1,
                                          .size = 2,
                                          .host = "host1",
                                          .build = "b",
                                          .fingerprint = "f",
                                          .facts_digest = kProof});
}

TEST(PeerMessages, ParsersAcceptOnlyCompleteMessages) {
  const Json whole = presentation();
  EXPECT_TRUE(comm::parse_presentation(whole));
  for (const auto& [key, value] : whole.as_object()) {
    Json changed = whole;
    changed.set(key, Json::array());
    EXPECT_FALSE(comm::parse_presentation(changed)) << key;
    Json::Object rest;
    for (const auto& member : whole.as_object())
      if (member.first != key) rest.push_back(member);
    EXPECT_FALSE(comm::parse_presentation(Json::object(rest))) << key;
    changed = whole;
    changed.set(key, value.is_string() ? Json(std::string(5000, 'a')) : Json(-1));
    EXPECT_FALSE(comm::parse_presentation(changed)) << key;
  }
}

TEST(PeerMessages, AcceptExactlyOneHostPerRank) {
  const Json two = Json::parse(R"({"hosts":["a","b"],"shared":""})");
  EXPECT_TRUE(comm::parse_welcome(two, 2));
  EXPECT_FALSE(comm::parse_welcome(two, 3));
  EXPECT_FALSE(comm::parse_welcome(two, 1));
  EXPECT_FALSE(comm::parse_welcome(two, -1));
  EXPECT_FALSE(comm::parse_welcome(Json::parse(R"({"hosts":["a",2],"shared":""})"), 2));
  EXPECT_FALSE(comm::parse_welcome(Json::parse(R"({"hosts":["a","b"]})"), 2));
}

TEST(PeerMessages, AcceptExactlyTheExpectedNumberOfCalls) {
  const Json beat = Json::parse(R"({"calls":[3,4],"left":true})");
  const auto taken = comm::parse_status(beat, 2);
  ASSERT_TRUE(taken && std::holds_alternative<comm::Beat>(*taken));
  EXPECT_EQ(std::get<comm::Beat>(*taken).calls, (std::vector<std::int64_t>{3, 4}));
  EXPECT_FALSE(comm::parse_status(beat, 1));
  EXPECT_FALSE(comm::parse_status(beat, 3));
  for (const char* text : {R"({"calls":"x"})", R"({"failed":1})", R"({"calls":1})", R"({"calls":[1]})",
                           R"({"calls":[-1],"left":true})", R"({"calls":[1],"left":1})", R"({"closed":1})", "{}", "[]"})
    EXPECT_FALSE(comm::parse_status(Json::parse(text), 1)) << text;
}

TEST(PeerMessages, ProofsDependOnEveryInput) {
  using comm::Role;
  const std::string proof = comm::proof_of("token", Role::member, kNonce, kNonce, 7, 1);
  EXPECT_EQ(proof.size(), comm::kProofDigits);
  EXPECT_EQ(proof, comm::proof_of("token", Role::member, kNonce, kNonce, 7, 1));
  EXPECT_NE(proof, comm::proof_of("Token", Role::member, kNonce, kNonce, 7, 1));
  EXPECT_NE(proof, comm::proof_of("token", Role::rank_0, kNonce, kNonce, 7, 1));
  EXPECT_NE(proof, comm::proof_of("token", Role::member, kProof, kNonce, 7, 1));
  EXPECT_NE(proof, comm::proof_of("token", Role::member, kNonce, kProof, 7, 1));
  EXPECT_NE(proof, comm::proof_of("token", Role::member, kNonce, kNonce, 8, 1));
  EXPECT_NE(proof, comm::proof_of("token", Role::member, kNonce, kNonce, 7, 2));
}

TEST(PeerMessages, OfTheCorpusAreAcceptedOrRejected) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(STROBE_TEST_DATA "/peer_messages_corpus")) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const int taken = fuzz_peer_messages(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
    const bool is_bad = entry.path().filename().string().starts_with("bad_");
    EXPECT_EQ(taken == 0, is_bad) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 14);
}

}  // namespace
}  // namespace strobe::test
