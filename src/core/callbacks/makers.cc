// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/makers.h"

#include <utility>

namespace callout::internal {
namespace {

std::pair<std::string_view, std::string_view> Split(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {text, {}};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

}  // namespace

Makers& Makers::Get() {
  static Makers* const makers = new Makers;  // leaked: programs may be loaded until the process ends
  return *makers;
}

Status Makers::Register(const std::string& kind, Maker maker, For whom) {
  if (kind.empty() || kind.find(':') != std::string::npos) {
    return InvalidArgument("callout: a kind of callbacks must not be empty or have a ':', got '" + kind + "'");
  }
  MutexLock lock(mutex_);
  if (!entries_.try_emplace(kind, Entry{std::move(maker), whom}).second) {
    return AlreadyExists("callout: callbacks of kind '" + kind + "' have a maker already");
  }
  return OkStatus();
}

void Makers::RegisterDefault(const std::string& kind, const Maker& maker) {
  MutexLock lock(mutex_);
  defaults_.try_emplace(kind, maker);
}

Makers::Maker Makers::Find(std::string_view kind, bool for_program) const {
  MutexLock lock(mutex_);
  const auto it = entries_.find(kind);
  if (it != entries_.end()) return for_program && it->second.whom != For::kPrograms ? nullptr : it->second.maker;
  const auto ours = defaults_.find(kind);
  return ours == defaults_.end() ? nullptr : ours->second;
}

Result<std::shared_ptr<Callback>> Makers::Make(const std::string& label, std::string_view text) const {
  const auto [kind, payload] = Split(text);
  if (const Maker maker = Find(kind, /*for_program=*/false)) return maker(label, payload);
  std::string known;
  MutexLock lock(mutex_);
  for (const auto& [each, entry] : entries_) known += " '" + each + "'";
  for (const auto& [each, maker] : defaults_) {
    if (!entries_.contains(each)) known += " '" + each + "'";
  }
  return NotFound("callout: the callback '" + label + "' is of the kind '" + std::string(kind) +
                  "', which has no maker; known kinds:" + (known.empty() ? " (none)" : known));
}

Result<std::shared_ptr<Callback>> Makers::MakeForProgram(std::string_view name) const {
  const auto [kind, payload] = Split(name);
  const Maker maker = kind.size() < name.size() ? Find(kind, /*for_program=*/true) : nullptr;
  if (!maker) return std::shared_ptr<Callback>();
  return maker(std::string(kind), payload);
}

}  // namespace callout::internal
