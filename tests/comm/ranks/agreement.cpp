// Scenario: all ranks receive the text of each rank and the error of rank 0, and all report facts that differ.
#include "comm/agreement.h"

#include "comm/ranks/scenario.h"
#include "strobe/error.h"

namespace strobe::test {
namespace {

// Returns the text of a rank. The texts have different lengths and end with a zero byte, but rank 1's is empty.
std::string text_of(int rank) {
  if (rank == 1) return "";
  return std::string(static_cast<std::size_t>(1000 * rank + 3), static_cast<char>('a' + rank)) + std::string(1, '\0');
}

Json facts_of(int layers) { return Json::object({{"rate", 0.1}, {"layers", layers}, {"name", "a model"}}); }

}  // namespace

int agreement(comm::Communicator& communicator) {
  int faults = 0;
  const int rank = communicator.rank(), size = communicator.size();
  for (int root = 0; root < size; ++root) {
    if (comm::broadcast_text(communicator, text_of(rank), root) == text_of(root)) continue;
    ++faults, std::fprintf(stderr, "broadcast_text: not the text of rank %d\n", root);
  }
  const std::vector<std::string> texts = comm::gather_texts(communicator, text_of(rank));
  if (texts.size() != static_cast<std::size_t>(size))
    ++faults, std::fprintf(stderr, "gather_texts: the number of texts differs from the number of ranks\n");
  for (int other = 0; other < static_cast<int>(texts.size()); ++other) {
    if (texts[static_cast<std::size_t>(other)] == text_of(other)) continue;
    ++faults, std::fprintf(stderr, "gather_texts: not the text of rank %d\n", other);
  }
  comm::check_same_facts(communicator, facts_of(4));
  int worked = 0;
  comm::on_first_rank(communicator, [&] { ++worked; });
  if (worked != (rank == 0)) ++faults, std::fprintf(stderr, "on_first_rank did not run on rank 0 only\n");
  try {
    comm::on_first_rank(communicator, [] { throw Error(ErrorCode::unsupported, "no such folder"); });
    ++faults, std::fprintf(stderr, "on_first_rank did not pass on the error of rank 0\n");
  } catch (const Error& error) {
    const bool same = std::string(error.what()) == "no such folder" && error.code() == ErrorCode::unsupported;
    if (!same) ++faults, std::fprintf(stderr, "code %d: %s\n", static_cast<int>(error.code()), error.what());
  }
  if (faults > 0) return faults;
  comm::check_same_facts(communicator, facts_of(rank == 2 ? 5 : 4));
  std::fprintf(stderr, "check_same_facts accepted different facts\n");
  return 1;
}

}  // namespace strobe::test
