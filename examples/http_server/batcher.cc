// SPDX-License-Identifier: Apache-2.0
#include "batcher.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace pjrt = callout::pjrt;

constexpr auto kPatience = std::chrono::microseconds(500);  // of the first request of a batch
constexpr int kThreads = 2;                                 // one collects while another's callbacks wait

Batcher::Batcher(std::shared_ptr<const pjrt::Client> client, pjrt::LoadedExecutable program)
    : client_(std::move(client)), program_(std::move(program)) {
  for (const pjrt::LoadedExecutable* each : program_.for_shapes()) {
    if (auto signature = each->ReadSignature(); signature.ok()) {
      sizes_.push_back(static_cast<size_t>(signature->inputs[0].type.dims[0]));
    }
  }
  std::sort(sizes_.begin(), sizes_.end());
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

// Rows do not know each other, so a batch may be filled up to the next size that the program has.
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
