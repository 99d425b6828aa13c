// Entry point of libFuzzer for the parsers of messages between ranks; built and run by tools/fuzz.
#include "support/fuzz_peer_messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  strobe::test::fuzz_peer_messages(data, bytes);
  return 0;
}
