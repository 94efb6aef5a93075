// SPDX-License-Identifier: Apache-2.0
//
// Shows slow steps on standard error: on a terminal every second in one line, otherwise in lines at growing intervals.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace callout::tools {

/// Not thread-safe. The destructor blocks for a moment, because it joins a thread.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Begins the step `what`. `detail`, which another thread calls, returns text to add; may be null.
  void Begin(const std::string& what, std::function<std::string()> detail = nullptr);
  /// Ends the step, and clears the terminal's line.
  void End();

 private:
  void Watch();
  void Show(double seconds);

  const bool is_terminal_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_;  // Empty: no step.
  std::function<std::string()> detail_;
  int phase_ = 0;
  bool shown_ = false;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace callout::tools
