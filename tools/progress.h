// SPDX-License-Identifier: Apache-2.0
//
// What takes long is told on standard error: on a terminal every second and in place, else in lines that get rarer.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace callout::tools {

/// Not thread-safe. Blocks for a moment when it is destroyed: it joins its thread.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// From now on `what` is going on. `detail` is asked for what to add, on another thread; null for nothing.
  void Begin(const std::string& what, std::function<std::string()> detail = nullptr);
  /// Nothing is going on. The terminal's line is empty again.
  void End();

 private:
  void Watch();
  void Show(double seconds);

  const bool is_terminal_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_;  // empty: nothing
  std::function<std::string()> detail_;
  int phase_ = 0;
  bool shown_ = false;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace callout::tools
