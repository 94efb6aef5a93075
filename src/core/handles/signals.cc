// SPDX-License-Identifier: Apache-2.0
#include "core/handles/signals.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "core/base/cat.h"
#include "core/base/fork_mutex.h"

namespace callout::internal {
namespace {

constexpr size_t kMostScopes = 16;

struct Signal {
  std::array<std::atomic<StopFlag*>, kMostScopes> flags{};  // the innermost last; some are null
  std::atomic<const struct sigaction*> before{nullptr};     // never destroyed, because a handler may be reading it
};

// A handler uses only these variables and a flag, all of them lock-free.
static_assert(std::atomic<StopFlag*>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);
std::array<Signal, NSIG> g_signals;
std::atomic<int> g_handlers{0};  // number of handlers that look at flags
std::atomic<pid_t> g_process{0};

ForkMutex& Lock() {
  static auto* const mutex = new ForkMutex;
  return *mutex;
}

/// Sets the innermost flag that is not set. Returns whether there was one.
bool SetInnermostFlag(Signal& caught) {
  if (getpid() != g_process.load(std::memory_order_relaxed)) return false;
  bool taken = false;
  g_handlers.fetch_add(1, std::memory_order_seq_cst);  // pairs with ~SignalScope, as do the loads below
  for (size_t i = kMostScopes; i-- > 0 && !taken;) {
    StopFlag* const flag = caught.flags[i].load(std::memory_order_seq_cst);
    taken = flag != nullptr && flag->SetIfUnset();
  }
  g_handlers.fetch_sub(1, std::memory_order_release);
  return taken;
}

void DoAsBefore(const struct sigaction& before, int number, siginfo_t* info, void* context) {
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(number, info, context);
  } else if (before.sa_handler == SIG_DFL) {
    signal(number, SIG_DFL);
    raise(number);  // the signal is blocked until this handler returns
  } else if (before.sa_handler != SIG_IGN) {
    before.sa_handler(number);
  }
}

void OnSignal(int number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  Signal& caught = g_signals[static_cast<size_t>(number)];
  if (!SetInnermostFlag(caught)) {
    const struct sigaction* const before = caught.before.load(std::memory_order_acquire);  // pairs with Install
    if (before != nullptr) DoAsBefore(*before, number, info, context);
  }
  errno = saved_errno;
}

bool IsOurs(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == &OnSignal;
}

bool IsAlike(const struct sigaction& a, const struct sigaction& b) {
  return a.sa_flags == b.sa_flags && a.sa_sigaction == b.sa_sigaction;
}

Status CannotBeCaught(int number) {
  return InvalidArgument(Cat("callout: StopFlag: signal ", number, " cannot be caught: ", std::strerror(errno)));
}

/// Installs OnSignal as the signal's handler.
Status Install(int number, Signal& caught) {
  struct sigaction now = {};
  if (sigaction(number, nullptr, &now) != 0) return CannotBeCaught(number);
  if (IsOurs(now)) return OkStatus();
  const struct sigaction* const before = caught.before.load(std::memory_order_relaxed);
  if (before == nullptr || !IsAlike(*before, now)) {
    caught.before.store(new struct sigaction(now), std::memory_order_release);  // pairs with OnSignal
  }
  struct sigaction ours = {};
  ours.sa_sigaction = &OnSignal;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;  // no SA_RESTART: Python's handlers run when a system call was interrupted
  sigemptyset(&ours.sa_mask);
  return sigaction(number, &ours, nullptr) == 0 ? OkStatus() : CannotBeCaught(number);
}

Status Push(int number, StopFlag* flag) {
  if (number < 1 || number >= NSIG) {
    errno = EINVAL;
    return CannotBeCaught(number);
  }
  Signal& caught = g_signals[static_cast<size_t>(number)];
  size_t place = kMostScopes;
  while (place > 0 && caught.flags[place - 1].load(std::memory_order_relaxed) == nullptr) --place;
  if (place == kMostScopes) {
    return ResourceExhausted(Cat("callout: StopFlag: ", kMostScopes, " flags catch signal ", number, " already"));
  }
  CALLOUT_RETURN_IF_ERROR(Install(number, caught));
  caught.flags[place].store(flag, std::memory_order_seq_cst);
  return OkStatus();
}

void Pop(int number, const StopFlag* flag) {
  Signal& caught = g_signals[static_cast<size_t>(number)];
  size_t place = kMostScopes;
  while (place > 0 && caught.flags[place - 1].load(std::memory_order_relaxed) != flag) --place;
  if (place > 0) caught.flags[place - 1].store(nullptr, std::memory_order_seq_cst);
  for (const auto& other : caught.flags) {
    if (other.load(std::memory_order_relaxed) != nullptr) return;
  }
  struct sigaction now = {};
  if (sigaction(number, nullptr, &now) == 0 && IsOurs(now)) {
    sigaction(number, caught.before.load(std::memory_order_relaxed), nullptr);
  }
}

}  // namespace

Result<std::unique_ptr<SignalScope>> SignalScope::Make(const std::vector<int>& signals,
                                                       std::shared_ptr<StopFlag> flag) {
  std::unique_ptr<SignalScope> scope(new SignalScope(std::move(flag)));  // its destructor restores the caught signals
  const MutexLock lock(Lock());
  g_process.store(getpid(), std::memory_order_relaxed);
  Status status;
  for (const int number : signals) {
    status = Push(number, scope->flag_.get());
    if (!status.ok()) break;
    scope->caught_.push_back(number);
  }
  if (status.ok()) return scope;
  for (const int number : std::exchange(scope->caught_, {})) Pop(number, scope->flag_.get());
  return status;
}

SignalScope::~SignalScope() {
  if (caught_.empty()) return;
  {
    const MutexLock lock(Lock());
    for (const int number : caught_) Pop(number, flag_.get());
  }
  while (g_handlers.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
}

}  // namespace callout::internal
