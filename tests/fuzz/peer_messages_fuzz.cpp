// libFuzzer entry point for messages between ranks (support/fuzz_peer_messages.h). tools/fuzz builds and runs it.
#include "support/fuzz_peer_messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  strobe::test::fuzz_peer_messages(data, bytes);
  return 0;
}
