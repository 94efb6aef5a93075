// SPDX-License-Identifier: Apache-2.0
//
// Replaces the standard library's atomics, mutexes and condition variables by Relacy's, under which a model compiles
// the unchanged sources of src/: std::atomic, std::mutex and std::condition_variable_any are macros from here on.
// Headers included after this one may include no other header that uses them.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cfenv>
#include <chrono>
#include <compare>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

// Relacy is included after the headers above, because it defines macros by names that they use.
#include <relacy/relacy.hpp>

#undef memory_order_relaxed
#undef memory_order_consume
#undef memory_order_acquire
#undef memory_order_release
#undef memory_order_acq_rel
#undef memory_order_seq_cst
#undef new
#undef delete
#undef malloc
#undef calloc
#undef realloc
#undef free
#undef assert
#undef errno
#undef Sleep

namespace callout::model {

/// How much a model is weakened, to see that it fails.
enum class Weakened { kNothing, kSequentialConsistency, kAll };
inline Weakened g_weakened = Weakened::kNothing;

inline rl::memory_order Order(std::memory_order order, rl::memory_order without_sequential_consistency) {
  if (g_weakened == Weakened::kAll) return rl::mo_relaxed;
  switch (order) {
    case std::memory_order_relaxed:
      return rl::mo_relaxed;
    case std::memory_order_consume:
    case std::memory_order_acquire:
      return rl::mo_acquire;
    case std::memory_order_release:
      return rl::mo_release;
    case std::memory_order_acq_rel:
      return rl::mo_acq_rel;
    case std::memory_order_seq_cst:
      break;
  }
  return g_weakened == Weakened::kNothing ? rl::mo_seq_cst : without_sequential_consistency;
}

/// A list of live atomics. Relacy requires that each is destroyed, even in memory that src/ frees as bytes.
class Live {
 public:
  Live() : next_(first_) { first_ = this; }
  virtual ~Live() {
    Live** at = &first_;
    while (*at != nullptr && *at != this) at = &(*at)->next_;
    if (*at != nullptr) *at = next_;
  }
  Live(const Live&) = delete;
  Live& operator=(const Live&) = delete;

  static void DestroyWithin(void* memory, size_t bytes) {
    char* const begin = static_cast<char*>(memory);
    for (Live* at = first_; at != nullptr;) {
      Live* const live = std::exchange(at, at->next_);
      const auto* const place = reinterpret_cast<const char*>(live);
      if (place >= begin && place < begin + bytes) live->~Live();
    }
  }
  /// Empties the list after an execution that failed, which destroys nothing.
  static void ForgetAll() { first_ = nullptr; }

 private:
  Live* next_;
  static inline Live* first_ = nullptr;
};

inline rl::debug_info Here(const char* file, int line) { return {"", file, static_cast<unsigned>(line)}; }

}  // namespace callout::model

#define CALLOUT_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

namespace std {

template <typename T>
class model_atomic : private callout::model::Live {
  using Order = std::memory_order;
  static constexpr Order kStrongest = std::memory_order_seq_cst;

 public:
  model_atomic() : model_atomic(T{}) {}
  model_atomic(T value) {  // NOLINT: implicit, like std::atomic's
    value_.store(value, rl::mo_relaxed, callout::model::Here("", 0));
  }

  T load(Order order = kStrongest, CALLOUT_HERE) const {
    return value_.load(callout::model::Order(order, rl::mo_acquire), callout::model::Here(file, line));
  }
  void store(T value, Order order = kStrongest, CALLOUT_HERE) {
    value_.store(value, callout::model::Order(order, rl::mo_release), callout::model::Here(file, line));
  }
  T exchange(T value, Order order = kStrongest, CALLOUT_HERE) {
    return value_.exchange(value, Changing(order), callout::model::Here(file, line));
  }
  T fetch_add(T value, Order order = kStrongest, CALLOUT_HERE) {
    return value_.fetch_add(value, Changing(order), callout::model::Here(file, line));
  }
  T fetch_sub(T value, Order order = kStrongest, CALLOUT_HERE) {
    return value_.fetch_sub(value, Changing(order), callout::model::Here(file, line));
  }
  bool compare_exchange_strong(T& expected, T value, Order order = kStrongest, CALLOUT_HERE) {
    return value_.compare_exchange_strong(expected, value, Changing(order), callout::model::Here(file, line));
  }
  bool compare_exchange_weak(T& expected, T value, Order order = kStrongest, CALLOUT_HERE) {
    return value_.compare_exchange_weak(expected, value, Changing(order), callout::model::Here(file, line));
  }

 private:
  static rl::memory_order Changing(Order order) { return callout::model::Order(order, rl::mo_acq_rel); }

  rl::atomic<T> value_;
};

class model_mutex {
 public:
  void lock(CALLOUT_HERE) { mutex_.lock(callout::model::Here(file, line)); }
  void unlock(CALLOUT_HERE) { mutex_.unlock(callout::model::Here(file, line)); }
  bool try_lock(CALLOUT_HERE) { return mutex_.try_lock(callout::model::Here(file, line)); }

 private:
  rl::mutex mutex_;
};

class model_condition {
  template <typename Lock>
  struct Located {
    Lock& lock_;
    void lock(rl::debug_info_param /*info*/) { lock_.lock(); }
    void unlock(rl::debug_info_param /*info*/) { lock_.unlock(); }
  };

 public:
  void notify_one(CALLOUT_HERE) { condition_.notify_one(callout::model::Here(file, line)); }
  void notify_all(CALLOUT_HERE) { condition_.notify_all(callout::model::Here(file, line)); }
  template <typename Lock>
  void wait(Lock& lock, CALLOUT_HERE) {
    Located<Lock> located{lock};
    condition_.wait(located, callout::model::Here(file, line));
  }
  /// Times out as soon as the thread gets its turn: Relacy's own timed waits run threads again that have ended.
  template <typename Lock, typename Time>
  std::cv_status wait_for(Lock& lock, Time /*duration*/, CALLOUT_HERE) {
    lock.unlock();
    rl::yield(1, callout::model::Here(file, line));
    lock.lock();
    return std::cv_status::timeout;
  }
  template <typename Lock, typename Time>
  std::cv_status wait_until(Lock& lock, Time time, CALLOUT_HERE) {
    return wait_for(lock, time, file, line);
  }

 private:
  rl::condition_variable_any condition_;
};

class model_thread {
  struct Started {
    std::function<void()> body;
    rl::dyn_thread thread;
  };

 public:
  using id = std::thread::id;
  model_thread() = default;
  template <typename Body>
  explicit model_thread(Body body) : started_(std::make_unique<Started>()) {
    started_->body = std::move(body);
    started_->thread.start(
        [](void* started) -> void* {
          static_cast<Started*>(started)->body();
          return nullptr;
        },
        started_.get());
  }
  bool joinable() const { return started_ != nullptr; }
  void join() {
    started_->thread.join();
    started_.reset();
  }

 private:
  std::unique_ptr<Started> started_;
};

}  // namespace std

#define atomic model_atomic
#define mutex model_mutex
#define condition_variable_any model_condition
#define thread model_thread
