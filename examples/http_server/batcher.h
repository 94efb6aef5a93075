// SPDX-License-Identifier: Apache-2.0
//
// Puts requests that come at the same time into one run of a program.
#pragma once

#include <callout/pjrt/executable.h>

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

constexpr size_t kFeatures = 8;

struct Query {
  std::array<float, kFeatures> vector;
  int32_t user;
};

class Batcher {
 public:
  /// The program takes f32[b,8] and s32[b], and returns f32[b]; each row of a batch is for itself. InvalidArgument if
  /// it takes or returns anything else.
  static callout::Result<std::unique_ptr<Batcher>> Make(std::shared_ptr<const callout::pjrt::Client> client,
                                                        callout::pjrt::LoadedExecutable program);
  /// Answers what it has got.
  ~Batcher();

  /// Blocks until the answer is there. Thread-safe.
  callout::Result<float> Ask(const Query& query);

 private:
  Batcher(std::shared_ptr<const callout::pjrt::Client> client, callout::pjrt::LoadedExecutable program,
          std::vector<size_t> sizes);
  struct Waiting {
    Query query;
    std::promise<callout::Result<float>> answer;
  };
  void Work();
  std::vector<Waiting> NextBatch();
  callout::Result<std::vector<float>> Run(const std::vector<Waiting>& batch) const;

  const std::shared_ptr<const callout::pjrt::Client> client_;
  const callout::pjrt::LoadedExecutable program_;
  const std::vector<size_t> sizes_;  // of batches that the program has, the least first
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};
