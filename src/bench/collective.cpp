// Implements measure_collective(): fills the vectors, checks the result, warms up and takes samples. Rank 0 decides
// when to stop and broadcasts its decision. Defines the columns of the result rows.
#include "bench/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "bench/row.h"
#include "comm/engine.h"
#include "core/clock.h"
#include "core/short_number.h"
#include "core/statistics.h"
#include "device/gpu_buffer.h"
#include "device/host/allocator.h"
#include "measure/system_info.h"

namespace strobe::bench {
namespace {

using comm::Communicator;
using comm::Elements;
using comm::Kind;

// Returns element i of a rank's input. Values are small integers, so sums are exact in any order.
float value_at(int rank, std::int64_t i) { return static_cast<float>((i * 7 + rank * 13) % 97 + 1); }

float sum_at(int ranks, std::int64_t i) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value_at(rank, i);
  return sum;
}

// An fp32 vector on the host or the GPU.
class Vector {
 public:
  Vector(std::int64_t count, comm::Memory memory) : count_(count), host_(bytes()) {
    if (memory == comm::Memory::gpu) gpu_ = GpuBuffer(std::max<std::size_t>(bytes(), 4));
  }

  Elements elements() const {
    if (gpu_.data()) return {gpu_.data(), count_, comm::Element::fp32, comm::Memory::gpu};
    return {host_.data(), count_, comm::Element::fp32};
  }
  float* host() const { return host_.as<float>(); }
  std::int64_t count() const { return count_; }

  template <class Value>
  void fill(Value value) {
    for (std::int64_t i = 0; i < count_; ++i) host()[i] = value(i);
    if (gpu_.data() && count_ > 0) gpu_.copy_from_host(host(), bytes());
  }
  // Counts the elements with a wrong value.
  template <class Value>
  std::int64_t differences(Value value) const {
    if (gpu_.data() && count_ > 0) gpu_.copy_to_host(host(), bytes());
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < count_; ++i) wrong += !(host()[i] == value(i));
    return wrong;
  }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(count_) * sizeof(float); }

  std::int64_t count_;
  Buffer host_;
  GpuBuffer gpu_;
};

// The input and output vectors of a case, and the collective call on them.
class Trial {
 public:
  Trial(Communicator& communicator, const CollectiveCase& one)
      : communicator_(communicator),
        kind_(one.kind),
        share_(communicator.share(one.elements())),
        in_(kind_ == Kind::all_gather  ? share_.count
            : kind_ == Kind::broadcast ? 0
                                       : one.elements(),
            one.memory),
        out_(kind_ == Kind::reduce_scatter ? share_.count : one.elements(), one.memory) {
    const int rank = communicator.rank();
    in_.fill([&](std::int64_t i) { return value_at(rank, kind_ == Kind::all_gather ? share_.first + i : i); });
    out_.fill([&](std::int64_t i) {
      return kind_ == Kind::broadcast && rank == 0 ? value_at(0, i) : std::numeric_limits<float>::quiet_NaN();
    });
  }

  void call() { communicator_.start({.kind = kind_, .in = in_.elements(), .out = out_.elements()}).wait(); }
  void call_plain() { comm::plain_mpi_all_reduce(in_.host(), out_.host(), out_.count()); }

  std::int64_t wrong() const {
    const int ranks = communicator_.size();
    const std::int64_t total = kind_ == Kind::reduce_scatter ? in_.count() : out_.count();
    switch (kind_) {
      case Kind::all_reduce: return out_.differences([&](std::int64_t i) { return sum_at(ranks, i); });
      case Kind::reduce_scatter:
        return out_.differences([&](std::int64_t i) { return sum_at(ranks, share_.first + i); });
      case Kind::broadcast: return out_.differences([](std::int64_t i) { return value_at(0, i); });
      case Kind::barrier: return 0;
      case Kind::all_gather: break;
    }
    std::vector<std::int64_t> ends;
    for (int rank = 0; rank < ranks; ++rank) {
      const comm::Share share = comm::share_of(total, rank, ranks);
      ends.push_back(share.first + share.count);
    }
    int owner = 0;
    return out_.differences([&](std::int64_t i) {
      while (i >= ends[static_cast<std::size_t>(owner)]) ++owner;
      return value_at(owner, i);
    });
  }
  std::int64_t checked() const { return out_.count(); }

 private:
  Communicator& communicator_;
  Kind kind_;
  comm::Share share_;
  Vector in_, out_;
};

// Returns rank 0's decision on all ranks.
bool agree(Communicator& communicator, bool decision) {
  std::int64_t word = decision;
  communicator.broadcast({&word, 1, comm::Element::int64});
  return word != 0;
}

// Gathers all ranks' samples on every rank. Every rank must have the same number of samples.
std::vector<std::vector<double>> gather(Communicator& communicator, std::vector<double>& own) {
  const std::size_t samples = own.size(), ranks = static_cast<std::size_t>(communicator.size());
  std::vector<double> all(samples * ranks);
  communicator.all_gather(comm::elements(std::span(own)), comm::elements(std::span(all)));
  std::vector<std::vector<double>> by_rank;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    by_rank.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(rank * samples),
                         all.begin() + static_cast<std::ptrdiff_t>((rank + 1) * samples));
  return by_rank;
}

template <class Call>
double timed(Communicator& communicator, Call call) {
  communicator.barrier();
  const double started = now_seconds();
  call();
  return now_seconds() - started;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Summarizes the ratios Strobe / MPI of adjacent samples. A disturbance of the machine affects both samples of a pair.
Json ratio(const std::vector<double>& ours, const std::vector<double>& theirs) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / theirs[i]);
  const Summary summary = summarize(ratios);
  return Json::object({{"median", summary.median},
                       {"interval", Json::array({summary.low, summary.high})},
                       {"confidence", summary.confidence},
                       {"n", summary.n}});
}

std::vector<double> rank_means(const CollectiveRow& row) {
  std::vector<double> means;
  for (const std::vector<double>& rank : row.result.seconds) means.push_back(mean(rank));
  return means;
}

Json slowest_rank(const CollectiveRow& row) {
  const std::vector<double> means = rank_means(row);
  return static_cast<int>(std::ranges::max_element(means) - means.begin());
}

std::string ratio_text(const Json& ratio) {
  const Json::Array& interval = ratio.at("interval").as_array();
  return fmt::format("{:.2f} ({:.2f} to {:.2f})", ratio.at("median").as_number(), interval.at(0).as_number(),
                     interval.at(1).as_number());
}

void begin_row(Json& json, const CollectiveRow& row) {
  const auto& [result, communicator] = row;
  const char* const engine = comm::name_of(communicator.engine());
  json.set("operation", comm::name_of(result.one.kind))
      .set("engine", engine)
      .set("ranks", communicator.size())
      .set("bytes", result.one.bytes)
      .set("dtype", "fp32")
      .set("memory", result.one.memory == comm::Memory::gpu ? "gpu" : "host")
      .set("library", communicator.engine() == comm::EngineKind::mpi ? comm::mpi_version() : engine)
      .set("link", communicator.world().local_size == communicator.size() ? "one host" : "several hosts")
      .set("status", result.status);
  if (!result.reason.empty()) json.set("reason", result.reason);
  json.set("check", Json::object({{"values", result.checked}, {"wrong", result.wrong}}));
}

}  // namespace

std::string memory_shortage(const CollectiveCase& one, int ranks) {
  if (one.memory != comm::Memory::host) return "";
  // Input, output and MPI's buffers.
  const double needed = 3.0 * static_cast<double>(one.bytes) * ranks;
  const auto free = static_cast<double>(read_memory_info().available);
  if (needed <= 0.9 * free) return "";
  const auto mebibytes = [](double bytes) {
    return std::to_string(static_cast<std::int64_t>(bytes / (1 << 20))) + " MiB";
  };
  return "needs " + mebibytes(needed) + " on all ranks together, but only " + mebibytes(free) + " are free";
}

CollectiveResult measure_collective(Communicator& communicator, const CollectiveCase& one, const StoppingRule& rule,
                                    Plain plain) {
  CollectiveResult result{.one = one, .reason = memory_shortage(one, communicator.size()), .seconds = {}, .plain = {}};
  if (agree(communicator, !result.reason.empty())) {
    result.status = "refused";
    return result;
  }
  Trial trial(communicator, one);
  trial.call();
  std::int64_t counts[] = {trial.checked(), trial.wrong()};
  communicator.all_reduce(comm::elements(std::span<std::int64_t>(counts)));
  result.checked = counts[0];
  result.wrong = counts[1];
  if (result.wrong > 0) {
    result.status = "wrong";
    result.reason = std::to_string(result.wrong) + " of " + std::to_string(result.checked) + " values are wrong";
    return result;
  }
  std::vector<double> ours, theirs;
  const auto sample = [&] {
    for (const bool is_plain : {ours.size() % 2 == 1, ours.size() % 2 == 0}) {  // the first call of a pair alternates
      if (!is_plain) ours.push_back(timed(communicator, [&] { trial.call(); }));
      if (is_plain && plain == Plain::measured) theirs.push_back(timed(communicator, [&] { trial.call_plain(); }));
    }
  };
  double started = now_seconds();
  do sample();
  while (!agree(communicator, warmed_up(ours, now_seconds() - started, rule.time_limit / 4)));
  ours.clear();
  theirs.clear();
  started = now_seconds();
  do {
    sample();
    result.stop = decide(rule, ours, now_seconds() - started);
  } while (!agree(communicator, result.stop != Stop::not_yet));
  result.seconds = gather(communicator, ours);
  if (plain == Plain::measured) result.plain = gather(communicator, theirs);
  return result;
}

std::vector<double> slowest(const std::vector<std::vector<double>>& seconds) {
  if (seconds.empty()) return {};
  std::vector<double> most = seconds[0];
  for (const std::vector<double>& rank : seconds) {
    for (std::size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], rank[i]);
  }
  return most;
}

const RowType<CollectiveRow>& collective_rows() {
  using Row = CollectiveRow;
  const auto seconds = [](const Row& row) { return slowest(row.result.seconds); };
  const auto rate = [=](const Row& row) {
    return static_cast<double>(row.result.one.bytes) / summarize(seconds(row)).median;
  };
  const auto bus_rate = [=](const Row& row) {
    return rate(row) * comm::bus_factor(row.result.one.kind, row.communicator.size());
  };
  static const RowType<Row> type{
      .kind = "collective",
      .begin = begin_row,
      .identity = {{"operation", left("operation")},
                   {"engine", "engine"},
                   {"memory", "memory"},
                   {"ranks", "ranks"},
                   {"bytes", "size",
                    [](const Json& bytes) { return bytes_text(static_cast<std::size_t>(bytes.as_integer())); }}},
      .figures = {
          {"time_s", "", [=](const Row& row) { return mean(seconds(row)); }},
          {"statistics", "",
           [=](const Row& row) { return samples_json(seconds(row)).set("stopped_by", name_of(row.result.stop)); }},
          {"statistics.mean_s", "mean ms", {}, short_text(1e3)},
          {"statistics.median_s", "median ms", {}, short_text(1e3)},
          {"statistics.spread", "spread", {}, number_text("{:.0f} %", 100)},
          {"slowest_rank", "slowest rank", slowest_rank},
          {"rank_means_s", "",
           [](const Row& row) {
             const std::vector<double> means = rank_means(row);
             return Json::array({means.begin(), means.end()});
           }},
          {"algorithm_bandwidth_bytes_per_s", "algorithm GB/s", rate, short_text(1e-9)},
          {"bus_bandwidth_bytes_per_s", "bus GB/s", bus_rate, short_text(1e-9)},
          {"plain_mpi", "",
           [](const Row& row) { return row.result.plain.empty() ? Json() : samples_json(slowest(row.result.plain)); }},
          {"time_over_plain_mpi", "time / MPI time",
           [=](const Row& row) {
             return row.result.plain.empty() ? Json() : ratio(seconds(row), slowest(row.result.plain));
           },
           ratio_text},
          {"reason", left("remark"), {}}}};
  return type;
}

}  // namespace strobe::bench
