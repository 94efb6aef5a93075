// SPDX-License-Identifier: Apache-2.0
//
// Callbacks made of text: "kind:payload", by the maker of that kind. A host makes any of them; a program, which may
// come from anywhere, only those of kinds that are for programs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "callout/export.h"
#include "callout/status.h"
#include "core/base/fork_mutex.h"
#include "core/callbacks/callback.h"

namespace callout::internal {

class CALLOUT_EXPORT Makers {
 public:
  /// `payload` is what stands behind the first ':', empty if there is none. Called without locks.
  using Maker = std::function<Result<std::shared_ptr<Callback>>(const std::string& label, std::string_view payload)>;
  enum class For { kHosts, kPrograms };

  /// The process's makers; never destroyed. Thread-safe.
  static Makers& Get();

  /// InvalidArgument for a kind that is empty or has a ':', AlreadyExists for one that is taken. Thread-safe.
  Status Register(const std::string& kind, Maker maker, For whom);

  /// What the core itself makes of a kind for programs, where nobody registers another maker: before or after. The
  /// first counts. Thread-safe.
  void RegisterDefault(const std::string& kind, const Maker& maker);

  /// NotFound with the known kinds; else the maker's own errors. Thread-safe.
  Result<std::shared_ptr<Callback>> Make(const std::string& label, std::string_view text) const;

  /// For a name that a program asks for: null if it is none of a kind for programs. Thread-safe.
  Result<std::shared_ptr<Callback>> MakeForProgram(std::string_view name) const;

 private:
  struct Entry {
    Maker maker;
    For whom;
  };

  Maker Find(std::string_view kind, bool for_program) const;

  mutable ForkMutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_ CALLOUT_GUARDED_BY(mutex_);
  std::map<std::string, Maker, std::less<>> defaults_ CALLOUT_GUARDED_BY(mutex_);
};

}  // namespace callout::internal
