// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

namespace callout::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kFirst = 2;    // Seconds until the first line.
constexpr double kRarer = 2;    // Factor between the times of lines without a terminal.
constexpr double kInPlace = 1;  // Seconds between updates on a terminal.

}  // namespace

Progress::Progress() : is_terminal_(isatty(STDERR_FILENO) == 1), thread_([this] { Watch(); }) {}

Progress::~Progress() {
  End();
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Progress::Begin(const std::string& what, std::function<std::string()> detail) {
  End();
  {
    const std::lock_guard lock(mutex_);
    what_ = what;
    detail_ = std::move(detail);
    ++phase_;
  }
  changed_.notify_all();
}

void Progress::End() {
  const std::lock_guard lock(mutex_);
  what_.clear();
  if (std::exchange(shown_, false) && is_terminal_) std::fputs("\r\x1b[K", stderr);
  changed_.notify_all();
}

void Progress::Show(double seconds) {
  const std::string detail = detail_ ? detail_() : "";
  std::fprintf(stderr, "%scallout: %s, %.0f s%s%s%s", is_terminal_ ? "\r" : "", what_.c_str(), seconds,
               detail.empty() ? "" : ", ", detail.c_str(), is_terminal_ ? "\x1b[K" : "\n");
  std::fflush(stderr);
  shown_ = true;
}

void Progress::Watch() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    if (what_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const int phase = phase_;
    const Clock::time_point start = Clock::now();
    for (double next = kFirst; !ends_ && !what_.empty() && phase_ == phase;) {
      const auto until = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(next));
      if (changed_.wait_until(lock, until) != std::cv_status::timeout) continue;
      if (ends_ || what_.empty() || phase_ != phase) break;
      Show(next);
      next = is_terminal_ ? next + kInPlace : next * kRarer;
    }
  }
}

}  // namespace callout::tools
