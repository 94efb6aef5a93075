// SPDX-License-Identifier: Apache-2.0
#include "batcher.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace pjrt = callout::pjrt;

constexpr auto kPatience = std::chrono::microseconds(500);  // of the first request of a batch
constexpr int kThreads = 2;                                 // one collects while another's callbacks wait

// Returns the size of the batches that a program takes.
static callout::Result<size_t> BatchOf(const pjrt::LoadedExecutable& program) {
  using callout::DType;
  CALLOUT_ASSIGN_OR_RETURN(const pjrt::Signature signature, program.ReadSignature());
  const std::vector<pjrt::ProgramArray>&inputs = signature.inputs, &outputs = signature.outputs;
  if (inputs.size() == 2 && outputs.size() == 1 && inputs[0].type.dims.size() == 2) {
    const int64_t size = inputs[0].type.dims[0];
    const std::vector<int64_t> matrix = {size, kFeatures}, column = {size};
    const auto is = [](const pjrt::ProgramArray& each, DType type, const std::vector<int64_t>& dims) {
      return each.type.dtype == type && each.type.dims == dims;
    };
    if (size > 0 && is(inputs[0], DType::kFloat32, matrix) && is(inputs[1], DType::kInt32, column) &&
        is(outputs[0], DType::kFloat32, column)) {
      return static_cast<size_t>(size);
    }
  }
  return callout::InvalidArgument("the program should take f32[b,8] and s32[b], and return f32[b]");
}

callout::Result<std::unique_ptr<Batcher>> Batcher::Make(std::shared_ptr<const pjrt::Client> client,
                                                        pjrt::LoadedExecutable program) {
  std::vector<size_t> sizes;
  for (const pjrt::LoadedExecutable* each : program.for_shapes()) {
    CALLOUT_ASSIGN_OR_RETURN(const size_t size, BatchOf(*each));
    sizes.push_back(size);
  }
  std::sort(sizes.begin(), sizes.end());
  return std::unique_ptr<Batcher>(new Batcher(std::move(client), std::move(program), std::move(sizes)));
}

Batcher::Batcher(std::shared_ptr<const pjrt::Client> client, pjrt::LoadedExecutable program, std::vector<size_t> sizes)
    : client_(std::move(client)), program_(std::move(program)), sizes_(std::move(sizes)) {
  for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Work(); });
}

Batcher::~Batcher() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

callout::Result<float> Batcher::Ask(const Query& query) {
  std::future<callout::Result<float>> answer;
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({query, {}});
    answer = waiting_.back().answer.get_future();
  }
  changed_.notify_all();
  return answer.get();
}

std::vector<Batcher::Waiting> Batcher::NextBatch() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
  changed_.wait_for(lock, kPatience, [this] { return ends_ || waiting_.size() >= sizes_.back(); });
  std::vector<Waiting> batch;
  while (!waiting_.empty() && batch.size() < sizes_.back()) {
    batch.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return batch;
}

void Batcher::Work() {
  while (true) {
    std::vector<Waiting> batch = NextBatch();
    if (batch.empty()) {
      const std::lock_guard lock(mutex_);
      if (ends_ && waiting_.empty()) return;
      continue;
    }
    const callout::Result<std::vector<float>> scores = Run(batch);
    for (size_t i = 0; i < batch.size(); ++i) {
      batch[i].answer.set_value(scores.ok() ? callout::Result<float>((*scores)[i]) : scores.status());
    }
  }
}

// Rows are independent, so a batch may be padded to the next size that the program has.
callout::Result<std::vector<float>> Batcher::Run(const std::vector<Waiting>& batch) const {
  const size_t size = *std::lower_bound(sizes_.begin(), sizes_.end(), batch.size());
  std::vector<float> vectors(size * kFeatures, 1.0F);
  std::vector<int32_t> users(size, 0);
  for (size_t i = 0; i < batch.size(); ++i) {
    std::copy(batch[i].query.vector.begin(), batch[i].query.vector.end(), vectors.begin() + i * kFeatures);
    users[i] = batch[i].query.user;
  }
  const std::vector<int64_t> matrix = {static_cast<int64_t>(size), kFeatures}, column = {static_cast<int64_t>(size)};
  const pjrt::Device& device = client_->devices()[0];
  CALLOUT_ASSIGN_OR_RETURN(const auto x, pjrt::Buffer::FromHost(client_, device, matrix, vectors));
  CALLOUT_ASSIGN_OR_RETURN(const auto user, pjrt::Buffer::FromHost(client_, device, column, users));
  CALLOUT_ASSIGN_OR_RETURN(const auto outputs, program_.Run({&x, &user}));
  return outputs[0].ToVector<float>();
}
