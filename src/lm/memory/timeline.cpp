// Implements MemoryRecorder, and measures the memory of one step.
#include "lm/memory/timeline.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "device/device_info.h"
#include "device/gpu_allocator.h"
#include "device/host/allocator.h"
#include "lm/plan/device_memory.h"
#include "ops/execution_context.h"

namespace strobe::lm {

namespace {

constexpr std::size_t kManyEvents = 1 << 16;  // reserved in advance, because the observer holds the allocator's lock

std::size_t& of(ByCategory& bytes, Category category) { return bytes[static_cast<std::size_t>(category)]; }

Category category_of(const char* tag) {
  static constexpr struct {
    const char* tag;
    Category category;
  } kTags[] = {{kValuesTag, Category::parameters}, {kCopiesTag, Category::parameters},
               {kMeanTag, Category::optimizer},    {kVarianceTag, Category::optimizer},
               {kArenaTag, Category::idle},        {"attention workspace", Category::scores},
               {kTransferTag, Category::data},     {kRopeTag, Category::data}};
  for (const auto& one : kTags) {
    if (std::strcmp(one.tag, tag) == 0) return one.category;
  }
  return Category::workspace;
}

// Returns the element type of an allocation. `copies` is the type of the parameter copies that matmuls read.
std::string type_of(const std::string& tag, DType copies) {
  if (tag == kCopiesTag) return name_of(copies);
  if (tag == kTransferTag) return "int32, fp32";
  for (const char* const fp32 : {kValuesTag, kMeanTag, kVarianceTag, kRopeTag}) {
    if (tag == fp32) return name_of(DType::fp32);
  }
  return {};
}

// Returns the bytes of a shared workspace that only attention needs: those beyond the kWorkspaceBytes of the matmuls.
std::size_t share_of_attention(const char* tag, std::size_t bytes) {
  if (std::strcmp(tag, kWorkspaceTag) != 0) return 0;
  return bytes - std::min(bytes, ops::kWorkspaceBytes);
}

}  // namespace

const char* name_of(Category category) {
  static constexpr const char* kNames[kCategories] = {"parameters",
                                                      "gradients",
                                                      "optimizer state",
                                                      "activations saved for backward",
                                                      "transient activations",
                                                      "attention scores",
                                                      "workspace",
                                                      "data",
                                                      "idle"};
  return kNames[static_cast<std::size_t>(category)];
}

std::size_t sum_of(const ByCategory& bytes) { return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}); }

std::size_t MemoryTimeline::peak_at() const {
  const auto rank = [](const ByCategory& bytes) {
    const std::size_t all = sum_of(bytes);
    return std::pair(all, all - bytes[static_cast<std::size_t>(Category::idle)]);
  };
  const auto found = std::max_element(moments.begin(), moments.end(),
                                      [&](const ByCategory& a, const ByCategory& b) { return rank(a) < rank(b); });
  return static_cast<std::size_t>(found - moments.begin());
}

std::size_t MemoryTimeline::most_in_use() const {
  std::size_t most = 0;
  for (ByCategory moment : moments) most = std::max(most, sum_of(moment) - of(moment, Category::idle));
  return most;
}

std::size_t MemoryTimeline::most_saved() const {
  std::vector<std::size_t> begun(moments.size()), ended(moments.size() + 1);  // bytes
  for (const Lifetime& lifetime : tensors) {
    if (!lifetime.is_saved) continue;
    begun[static_cast<std::size_t>(lifetime.from)] += lifetime.bytes;
    ended[static_cast<std::size_t>(lifetime.to) + 1] += lifetime.bytes;
  }
  std::size_t most = 0, saved = 0;
  for (std::size_t at = 0; at < moments.size(); ++at) {
    saved += begun[at] - ended[at];
    most = std::max(most, saved);
  }
  return most;
}

MemoryRecorder::MemoryRecorder(AllocationCounter& counter) : counter_(counter) {
  timeline_.allocations.reserve(kManyEvents);
  pointers_.reserve(kManyEvents);
  counter_.observe([this](const AllocationEvent& event) { on(event); });
}

void MemoryRecorder::watch(Model& model) {
  model_ = &model;
  model.record(this);
  for (const Copies& copies : model.plan().copies) {  // live from the step's start to their last matmul
    Lifetime lifetime = lifetime_of(copies.tensor);
    lifetime.category = Category::parameters;
    lifetime.from = -1;
    tenants_[copies.tensor] = {timeline_.tensors.size(), Phase::update};
    timeline_.tensors.push_back(std::move(lifetime));
  }
}

void MemoryRecorder::on(const AllocationEvent& event) {
  const int now = static_cast<int>(timeline_.operations.size()) - 1;
  if (event.kind == AllocationEvent::Kind::free) {
    std::size_t end = pointers_.size();  // search backwards: the last allocation is usually freed first
    while (end > 0 && pointers_[end - 1] != event.pointer) --end;
    for (; end > 0 && pointers_[end - 1] == event.pointer; --end) {  // a workspace may have two entries
      Lifetime& lifetime = timeline_.allocations[end - 1];
      pointers_[end - 1] = nullptr;
      lifetime.to = now;
      of(held_, lifetime.category) -= lifetime.bytes;
      top_ -= lifetime.bytes;
    }
    return;
  }
  const std::size_t for_attention = share_of_attention(event.tag, event.bytes);
  const auto hold = [&](const char* name, Category category, std::size_t bytes) {
    if (category == Category::idle) timeline_.arena_at = top_;
    timeline_.allocations.push_back({name, category, bytes, top_, now, -1});
    pointers_.push_back(event.pointer);
    of(held_, category) += bytes;
    top_ += bytes;
  };
  hold(event.tag, category_of(event.tag), event.bytes - for_attention);
  if (for_attention > 0) hold("workspace of attention", Category::scores, for_attention);
  if (now >= 0 && sum_of(held_) > sum_of(timeline_.moments.back())) timeline_.moments.back() = held_;
}

// --- operations ------------------------------------------------------------------------------------------------------

Lifetime MemoryRecorder::lifetime_of(std::size_t tensor) const {
  const Activation& one = model_->plan().table.at(tensor);
  const Category category = one.kind == Activation::Kind::scores ? Category::scores : Category::transient;
  return {.name = one.name,
          .category = category,
          .bytes = one.bytes(),
          .at = one.first,
          .from = 0,
          .to = 0,
          .type = name_of(one.dtype)};
}

void MemoryRecorder::begin_lifetime(std::size_t key, Lifetime lifetime, Phase phase) {
  const int now = static_cast<int>(timeline_.operations.size()) - 1;
  lifetime.from = lifetime.to = now;
  tenants_[key] = {timeline_.tensors.size(), phase};
  timeline_.tensors.push_back(std::move(lifetime));
}

void MemoryRecorder::read(std::size_t tensor, Phase phase) {
  const auto found = tenants_.find(tensor);
  if (found == tenants_.end()) return;
  const Tenant& tenant = found->second;
  Lifetime& lifetime = timeline_.tensors[tenant.lifetime];
  lifetime.to = static_cast<int>(timeline_.operations.size()) - 1;
  if (tenant.written != Phase::forward || phase != Phase::backward) return;
  lifetime.is_saved = true;
  if (lifetime.category == Category::transient) lifetime.category = Category::saved;
}

void MemoryRecorder::write(const TensorUse& use, Phase phase) {
  Lifetime lifetime = lifetime_of(use.tensor);
  if (use.bytes > 0) lifetime.bytes = use.bytes;
  begin_lifetime(use.tensor, std::move(lifetime), phase);
}

void MemoryRecorder::begin(const Operation& operation) {
  timeline_.operations.push_back(std::string(operation.name) + " " + operation.of);
  timeline_.phases.push_back(operation.phase);
  timeline_.moments.push_back(held_);
  const auto reads = [&](std::size_t tensor) {
    return std::any_of(operation.reads.begin(), operation.reads.end(), [&](auto& use) { return use.tensor == tensor; });
  };
  for (const TensorUse& use : operation.reads) read(use.tensor, operation.phase);
  for (const TensorUse& use : operation.writes) {
    if (!reads(use.tensor)) write(use, operation.phase);
  }
  const std::size_t first_gradient_key = model_->plan().table.size();
  for (std::size_t i = 0; i < operation.gradients; ++i) {
    const Parameter& parameter = model_->parameters()[operation.parameter + i];
    begin_lifetime(first_gradient_key + operation.parameter + i,
                   {.name = "gradient of " + parameter.name,
                    .category = Category::gradients,
                    .bytes = static_cast<std::size_t>(parameter.count()) * sizeof(float),
                    .at = model_->first_gradient() + static_cast<std::size_t>(parameter.first) * sizeof(float),
                    .type = name_of(DType::fp32)},
                   operation.phase);
  }
  const Copies* const copies = copies_with(model_->plan(), operation.parameter);
  if (copies && operation.kind == OperationKind::matmul) read(copies->tensor, operation.phase);
  if (operation.kind != OperationKind::optimizer) return;
  for (std::size_t i = 0; i < model_->parameters().size(); ++i) read(first_gradient_key + i, operation.phase);
}

void MemoryRecorder::end() {}

MemoryTimeline MemoryRecorder::finish() {
  model_->record(nullptr);
  counter_.observe({});
  const int last = static_cast<int>(timeline_.operations.size()) - 1;
  for (std::size_t i = 0; i < timeline_.allocations.size(); ++i) {
    Lifetime& lifetime = timeline_.allocations[i];
    if (pointers_[i]) lifetime.to = last;
    lifetime.type = type_of(lifetime.name, model_->dtype());
  }
  add_tensors_to_moments();
  return std::move(timeline_);
}

// Adds the tensors' bytes to each moment, in time linear in the number of tensors plus operations.
void MemoryRecorder::add_tensors_to_moments() {
  std::vector<ByCategory> begun(timeline_.moments.size()), ended(timeline_.moments.size() + 1);  // bytes
  for (const Lifetime& lifetime : timeline_.tensors) {
    if (lifetime.to < 0) continue;
    of(begun[static_cast<std::size_t>(std::max(0, lifetime.from))], lifetime.category) += lifetime.bytes;
    of(ended[static_cast<std::size_t>(lifetime.to) + 1], lifetime.category) += lifetime.bytes;
  }
  ByCategory live{};
  for (std::size_t at = 0; at < timeline_.moments.size(); ++at) {
    ByCategory& moment = timeline_.moments[at];
    for (std::size_t i = 0; i < kCategories; ++i) {
      live[i] += begun[at][i] - ended[at][i];
      moment[i] += live[i];
    }
    of(moment, Category::idle) -= sum_of(live);
  }
}

// --- one step, measured ----------------------------------------------------------------------------------------------

std::size_t residual_bytes(const BenchCase& one) {
  return static_cast<std::size_t>(one.batch * one.shape.context * one.shape.d_model) * size_of(dtype_of(one.precision));
}

MemoryFigures measure_memory(const BenchCase& one) {
  constexpr auto kParameters = PassRun::Parameters::zero;
  const bool on_gpu = one.execution.device == Device::cuda;
  if (on_gpu) PassRun(one, kParameters).run();
  MemoryFigures figures;
  figures.predicted = predicted_bytes(one);
  const std::size_t free = on_gpu ? current_gpu_info().memory_free_bytes : 0;
  AllocationCounter& counter = on_gpu ? static_cast<AllocationCounter&>(gpu_allocator()) : host_allocator();
  counter.reset_peak();
  const std::size_t before = counter.statistics().current;
  MemoryRecorder recorder(counter);
  PassRun pass(one, kParameters);
  recorder.watch(pass.model());
  pass.run();
  figures.timeline = recorder.finish();
  figures.counted = counter.statistics().peak - before;
  const std::size_t left = on_gpu ? current_gpu_info().memory_free_bytes : 0;
  if (left < free) figures.driver = free - left;  // otherwise another process has freed memory in the meantime
  return figures;
}

}  // namespace strobe::lm
