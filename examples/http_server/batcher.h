// SPDX-License-Identifier: Apache-2.0
// Combines concurrent requests in one run of a program.
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
  /// The program takes f32[b,8] and s32[b], and returns f32[b]; the rows of a batch are independent. Returns
  /// InvalidArgument for a program with other arguments or results.
  static callout::Result<std::unique_ptr<Batcher>> Make(std::shared_ptr<const callout::pjrt::Client> client,
                                                        callout::pjrt::LoadedExecutable program);
  /// Answers the requests that it has accepted.
  ~Batcher();

  /// Blocks until the request is answered. Thread-safe.
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
