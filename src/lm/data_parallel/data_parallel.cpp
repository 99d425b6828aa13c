// Implements DataParallel: exchanges gradients bucket by bucket during or after backward, then runs AdamW on the
// elements that this rank updates.
#include "lm/data_parallel/data_parallel.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>

#include "core/clock.h"
#include "core/fail.h"
#include "lm/models/parameters.h"

namespace strobe::lm {

namespace {

constexpr auto kNone = std::numeric_limits<std::size_t>::max();
constexpr const char *kAveragesTag = "AdamW moments of this rank",
                     *kScatteredTag = "gradient sums of this rank's share", *kUpdateTag = "arguments of an update";

// Returns the intersection of two ranges; its count is 0 if they are disjoint.
comm::Share common(const comm::Share& one, const comm::Share& other) {
  const std::int64_t first = std::max(one.first, other.first);
  const std::int64_t end = std::min(one.first + one.count, other.first + other.count);
  return end > first ? comm::Share{first, end - first} : comm::Share{one.first, 0};
}

const Replica& checked(const Replica& replica) {
  const std::int64_t size = replica.count;
  for (std::size_t i = 0; i < replica.tensors.size(); ++i) {
    const Tensor& tensor = replica.tensors[i];
    if (tensor.first < 0 || tensor.count < 0 || tensor.first > size - tensor.count || tensor.uses < 1) {
      fail(ErrorCode::invalid_argument,
           "data parallel: tensor {} of {} elements from {}, used {} times; valid: within {} elements, used at least "
           "once",
           i, tensor.count, tensor.first, tensor.uses, size);
    }
  }
  return replica;
}

}  // namespace

DataParallel::DataParallel(comm::Communicator& communicator, const Replica& replica, const ParallelOptions& options)
    : communicator_(communicator),
      replica_(checked(replica)),
      strategy_(options.strategy),
      buckets_(buckets_of(replica.tensors, options.strategy.grouping, options.bucket_bytes)),
      groups_(buckets_.size()),
      bucket_of_(replica.tensors.size(), kNone),
      state_(replica.stream, 0, kAveragesTag),
      scattered_(replica.stream, 0, kScatteredTag),
      update_(replica.stream, sizeof(ops::Update), kUpdateTag),
      exceptions_(std::uncaught_exceptions()) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b];
    for (const std::size_t tensor : bucket.tensors) bucket_of_[tensor] = b;
    const comm::Share share = updated_by(communicator.rank(), bucket);
    groups_[b].own_first = share.first;
    groups_[b].own_count = share.count;
    groups_[b].state_first = own_count_;
    own_count_ += share.count;
    if (replica_.stream) groups_[b].ready = std::make_unique<GpuEvent>();
  }
  state_ = Memory(replica_.stream, 2 * float_bytes(own_count_), kAveragesTag);
  if (strategy_.updates == Updates::scattered_share) {
    scattered_ = Memory(replica_.stream, float_bytes(own_count_), kScatteredTag);
  }
}

DataParallel::~DataParallel() {
  if (calls_.empty()) return;
  if (std::uncaught_exceptions() > exceptions_) communicator_.abort("see the error that it printed");
  // Waits for the pending calls, at most until their timeout, because they use this object's events.
  try {
    if (replica_.stream) replica_.stream->synchronize();
  } catch (const Error&) {
  }
  for (const comm::Pending& call : calls_) {
    try {
      call.wait();
    } catch (const Error&) {  // a destructor must not throw
    }
  }
}

comm::Share DataParallel::updated_by(int rank, const Bucket& bucket) const {
  if (strategy_.updates == Updates::all) return {bucket.first, bucket.count};
  const comm::Share share = comm::share_of(bucket.count, rank, communicator_.size());
  return {bucket.first + share.first, share.count};
}

comm::Elements DataParallel::placed(float* data, std::int64_t count) const {
  return {data, count, comm::Element::fp32, replica_.stream ? comm::Memory::gpu : comm::Memory::host};
}

void DataParallel::begin() {
  if (replica_.stream) replica_.stream->synchronize();  // work on the stream writes the initial values
  communicator_.broadcast(placed(replica_.values, replica_.count));
  state_.clear();
  record_ = {};
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    groups_[b].left = 0;
    for (const std::size_t tensor : buckets_[b].tensors) groups_[b].left += replica_.tensors[tensor].uses;
    groups_[b].started = false;
    groups_[b].sums = {};
  }
}

// --- a step ----------------------------------------------------------------------------------------------------------

void DataParallel::ready(std::size_t tensor) {
  if (tensor >= bucket_of_.size()) {
    fail(ErrorCode::invalid_argument, "data parallel: gradient {} is ready; valid: 0 to {}", tensor,
         static_cast<std::int64_t>(bucket_of_.size()) - 1);
  }
  if (bucket_of_[tensor] == kNone) return;
  Group& group = groups_[bucket_of_[tensor]];
  if (group.left == 0) {
    fail(ErrorCode::invalid_argument, "data parallel: gradient {} was reported as ready more often than it is used",
         tensor);
  }
  --group.left;
  if (group.left == 0 && strategy_.start == Start::when_ready) start(bucket_of_[tensor]);
}

comm::Pending DataParallel::counted(comm::Pending call, const ParallelCall& what) {
  ++record_.calls;
  record_.bytes += what.bytes;
  record_.all_calls.push_back(what);
  calls_.push_back(call);
  return call;
}

void DataParallel::open_record() {
  if (recorded_) record_ = {};
  recorded_ = false;
}

void DataParallel::start(std::size_t bucket) {
  open_record();
  const auto& [tensors, first, count] = buckets_[bucket];
  Group& group = groups_[bucket];
  const comm::Elements gradients = placed(replica_.gradients + first, count);
  record_.events.push_back({ParallelEvent::Kind::bucket_started, bucket, now_seconds()});
  group.started = true;
  const bool scatter = strategy_.updates == Updates::scattered_share;
  const comm::Kind kind = scatter ? comm::Kind::reduce_scatter : comm::Kind::all_reduce;
  const comm::Elements sums = scatter ? placed(scattered_.as<float>() + group.state_first, group.own_count) : gradients;
  if (group.ready) group.ready->record(*replica_.stream);
  group.sums = counted(communicator_.start({.kind = kind, .in = gradients, .out = sums, .after = group.ready.get()}),
                       {.kind = kind, .bucket = static_cast<std::int64_t>(bucket), .bytes = gradients.bytes()});
}

bool DataParallel::exchanged(std::size_t bucket) const {
  return groups_.at(bucket).started && groups_.at(bucket).sums.done();
}

ParallelUpdate DataParallel::finish(const ops::AdamW& adamw, double clip, Overflow overflow) {
  if (replica_.stream) replica_.stream->synchronize();  // waits until the GPU has finished backward
  const double backward_ended = now_seconds();
  for (std::size_t b = 0; b < groups_.size(); ++b) {
    if (groups_[b].left == 0) continue;
    fail(ErrorCode::invalid_argument, "data parallel: the step ends but bucket {} of {} still waits for {} gradients",
         b, groups_.size(), groups_[b].left);
  }
  open_record();
  record_.events.push_back({ParallelEvent::Kind::backward_ended, 0, backward_ended});
  record_.backward_ended = backward_ended;
  wait_for_sums();
  record_.update_began = now_seconds();
  ops::Update update = ops::update_of(adamw);
  update.gradient_scale /= static_cast<float>(communicator_.size());  // converts sums to means
  update.most = static_cast<float>(clip);
  update.skip_infinite = overflow == Overflow::skipped ? 1 : 0;
  limit(update);
  ops::adamw(replica_.execution, update_.as<ops::Update>(), own_part());
  update_.read(0, &update, sizeof update);  // on CUDA waits for AdamW
  record_.update_ended = now_seconds();
  if (strategy_.updates != Updates::all) gather_values();
  measure_calls();
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (const std::size_t tensor : buckets_[b].tensors) groups_[b].left += replica_.tensors[tensor].uses;
    groups_[b].started = false;
  }
  return {.norm = update.norm, .skipped = update.skip != 0};
}

void DataParallel::wait_for_sums() {
  for (std::size_t b = 0; b < groups_.size(); ++b) {
    if (!groups_[b].started) start(b);
  }
  for (const Group& group : groups_) group.sums.wait();
}

// Sets update_ to `update` with the gradient norm, and with gradient_scale multiplied by the clipping factor. Norm and
// factor depend only on sums over all ranks. So all ranks clip by the same factor, and all ranks skip the step if the
// gradient of any rank is not finite.
void DataParallel::limit(ops::Update update) {
  if (strategy_.updates != Updates::scattered_share) {
    update_.write(0, &update, sizeof update);
    return ops::limit_gradients(replica_.execution, whole(), update_.as<ops::Update>());
  }
  const double norm = ops::gradient_norm(replica_.execution, own_part());
  double squares = norm * norm;
  const comm::Elements sum = comm::elements(std::span(&squares, 1));
  counted(communicator_.start_all_reduce(sum, sum), {.bytes = sum.bytes()}).wait();
  ops::apply_norm(update, std::sqrt(squares) * static_cast<double>(update.gradient_scale));
  update_.write(0, &update, sizeof update);
}

void DataParallel::gather_values() {
  for (std::size_t b = 0; b < groups_.size(); ++b) {
    const comm::Elements whole = placed(replica_.values + buckets_[b].first, buckets_[b].count);
    const comm::Elements own = placed(replica_.values + groups_[b].own_first, groups_[b].own_count);
    counted(communicator_.start_all_gather(own, whole),
            {.kind = comm::Kind::all_gather, .bucket = static_cast<std::int64_t>(b), .bytes = whole.bytes()});
  }
  for (const comm::Pending& call : calls_) call.wait();
}

// Adds the times of the step's calls to record_. The communicator runs calls one after the other, so their times do not
// overlap.
void DataParallel::measure_calls() {
  record_.optimizer = record_.update_ended - record_.update_began;
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    ParallelCall& call = record_.all_calls[i];
    const comm::CallTimes times = call.times = calls_[i].times();
    const double hidden = std::clamp(record_.backward_ended, times.began, times.ended) - times.began;
    record_.hidden += hidden;
    record_.exposed += times.ended - times.began - hidden;
    if (call.bucket < 0) record_.optimizer -= times.ended - times.began;
  }
  calls_.clear();
  recorded_ = true;
}

double DataParallel::mean_of_ranks(double value) {
  communicator_.all_reduce(comm::elements(std::span(&value, 1)));
  return value / communicator_.size();
}

// --- the optimizer's state -------------------------------------------------------------------------------------------

std::size_t DataParallel::average_at(Average which, const Group& group, std::int64_t element) const {
  return float_bytes((which == Average::mean ? 0 : own_count_) + group.state_first + element - group.own_first);
}

void DataParallel::read_average(Average which, std::int64_t first, std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0f);
  const comm::Share range{first, static_cast<std::int64_t>(out.size())};
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Group& group = groups_[b];
    const auto copy_own = [&](const comm::Share& part) {
      if (part.count == 0) return;
      state_.read(average_at(which, group, part.first), out.data() + part.first - first, float_bytes(part.count));
    };
    if (strategy_.updates == Updates::all) {
      copy_own(common(range, updated_by(communicator_.rank(), buckets_[b])));
      continue;
    }
    for (int rank = 0; rank < communicator_.size(); ++rank) {
      const comm::Share part = common(range, updated_by(rank, buckets_[b]));
      if (part.count == 0) continue;
      if (rank == communicator_.rank()) copy_own(part);
      communicator_.broadcast(comm::elements(out.subspan(static_cast<std::size_t>(part.first - first),
                                                         static_cast<std::size_t>(part.count))),
                              rank);
    }
  }
}

void DataParallel::write_average(Average which, std::int64_t first, std::span<const float> in) {
  const comm::Share range{first, static_cast<std::int64_t>(in.size())};
  for (const Group& group : groups_) {
    const comm::Share part = common(range, {group.own_first, group.own_count});
    if (part.count == 0) continue;
    state_.write(average_at(which, group, part.first), in.data() + part.first - first, float_bytes(part.count));
  }
}

// --- arguments of AdamW ----------------------------------------------------------------------------------------------

std::vector<ops::Trained> DataParallel::own_part() const {
  std::vector<ops::Trained> all;
  for (const Group& group : groups_) {
    const float* const sums = strategy_.updates == Updates::scattered_share ? scattered_.as<float>() + group.state_first
                                                                            : replica_.gradients + group.own_first;
    all.push_back({.count = group.own_count,
                   .value = replica_.values + group.own_first,
                   .gradient = sums,
                   .mean = state_.as<float>() + group.state_first,
                   .variance = state_.as<float>() + own_count_ + group.state_first});
  }
  return all;
}

std::vector<ops::Trained> DataParallel::whole() const {
  std::vector<ops::Trained> all;
  for (const Bucket& bucket : buckets_) {
    all.push_back({.count = bucket.count, .gradient = replica_.gradients + bucket.first});
  }
  return all;
}

}  // namespace strobe::lm
