// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/registry.h"

#include <algorithm>
#include <numeric>
#include <sstream>
#include <utility>

#include "core/base/cat.h"
#include "core/base/hazard.h"
#include "core/callbacks/binding_scope.h"
#include "core/callbacks/callback.h"

namespace callout::internal {
namespace {

// Compares without taking a reference: dropping the last reference under the lock would run a destructor there.
bool IsSame(const std::weak_ptr<Callback>& one, const std::weak_ptr<Callback>& other) {
  return !one.owner_before(other) && !other.owner_before(one);
}

// The limit is large because a print's name describes the print, which may have thousands of arrays.
constexpr size_t kMaxNameBytes = 1 << 20;
constexpr size_t kMaxListed = 100;  // names in an error

std::string Shown(std::string_view name) {
  constexpr size_t kMaxShown = 256;
  return std::string(name.substr(0, kMaxShown)) + (name.size() > kMaxShown ? "..." : "");
}

// Returns how many characters must be changed, inserted or removed to turn one text into the other (Levenshtein).
size_t Distance(std::string_view one, std::string_view other) {
  std::vector<size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < one.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < other.size(); ++j) {
      const size_t changed = diagonal + (one[i] == other[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

// Returns the known name that `name` may be a misspelling of: at most a third differs. Empty if there is none.
std::string_view Nearest(std::string_view name, const std::vector<std::string>& names) {
  constexpr size_t kMaxCompared = 256;
  std::string_view nearest;
  size_t least = name.size() / 3 + 1;
  if (name.size() > kMaxCompared) return nearest;
  for (const std::string& known : names) {
    if (known.size() > kMaxCompared) continue;
    if (const size_t distance = Distance(name, known); distance < least) {
      least = distance;
      nearest = known;
    }
  }
  return nearest;
}

}  // namespace

RegisteredName::~RegisteredName() { delete holder_.load(std::memory_order_relaxed); }

std::shared_ptr<Callback> RegisteredName::callback() const {
  const Holder* holder = nullptr;
  const Hazard hazard = Hazard::Of(holder_, holder);
  return *holder;
}

const RegisteredName::Holder* RegisteredName::Set(std::shared_ptr<Callback> callback) {
  const Callback* const raw = callback.get();
  const Holder* const old = holder_.exchange(new Holder(std::move(callback)), std::memory_order_seq_cst);
  now_.store(raw, std::memory_order_release);  // pairs with IsOf: a thread that sees the callback also sees the holder
  return old;
}

void RegisteredName::Forget(const Holder* old) {
  if (old == nullptr) return;
  Hazard::WaitForReaders(old);
  delete old;
}

Registry& Registry::Get() {
  static Registry* const registry = new Registry;  // leaked: it may hold Python callables at exit
  return *registry;
}

Status Registry::Register(const std::string& name, std::shared_ptr<Callback> callback, bool replace) {
  if (name.find_first_of(std::string_view("\n\0", 2)) != std::string::npos || name.size() > kMaxNameBytes) {
    return InvalidArgument(Cat("cannot register a callback as '", Shown(name),
                               "': a name must be one line, of at most ", kMaxNameBytes, " bytes"));
  }
  if (name.empty() || name.starts_with(kBoundPrefix) || name.starts_with(kNativePrefix) ||
      name.starts_with(kPrintPrefix)) {
    return InvalidArgument("cannot register a callback as '" + name +
                           "': a name must not be empty and must not begin with 'py:', 'native:' or 'id_print:'");
  }
  const RegisteredName::Holder* replaced = nullptr;
  {
    MutexLock lock(mutex_);
    Sweep();
    Entry& entry = entries_[name];
    if (entry.held != nullptr && !replace) {
      return AlreadyExists("a callback is already registered as '" + name + "'; pass replace=True to bind it anew");
    }
    entry.held = entry.name.lock();  // programs that were loaded before hold it
    if (entry.held == nullptr) entry.held = std::make_shared<RegisteredName>();
    entry.name = entry.held;
    replaced = entry.held->Set(std::move(callback));
  }
  RegisteredName::Forget(replaced);  // after the lock is released: a callback's destructor may need other locks
  return OkStatus();
}

Status Registry::Unregister(const std::string& name) {
  std::shared_ptr<RegisteredName> removed;
  MutexLock lock(mutex_);
  auto it = entries_.find(name);
  if (it == entries_.end() || it->second.held == nullptr) {
    return NotFound("no callback is registered as '" + name + "'");
  }
  removed = std::move(it->second.held);
  if (removed.use_count() == 1) entries_.erase(it);
  return OkStatus();
}

std::string Registry::Bind(std::string_view base, const std::shared_ptr<Callback>& callback) {
  std::string stem(base.starts_with(kNativePrefix) ? "" : kBoundPrefix);
  stem += base;
  MutexLock lock(mutex_);
  Sweep();
  std::string name = stem;
  for (int i = 1;; ++i) {
    Entry& entry = entries_[name];
    if (entry.bindings > 0 && IsSame(entry.callback, callback)) {
      ++entry.bindings;
      return name;
    }
    if (entry.bindings == 0 || entry.callback.expired()) {
      entry.callback = callback;
      entry.bindings = 1;
      return name;
    }
    name = Cat(stem, "#", i);
  }
}

void Registry::Unbind(const std::string& name, const std::weak_ptr<Callback>& callback) {
  MutexLock lock(mutex_);
  // The entry stays while its callback lives.
  auto it = entries_.find(name);
  if (it != entries_.end() && it->second.bindings > 0 && IsSame(it->second.callback, callback)) --it->second.bindings;
}

Result<std::shared_ptr<Callback>> Registry::Find(std::string_view name, std::string_view needed) const {
  CALLOUT_ASSIGN_OR_RETURN(BoundCallback found, FindBound(name, needed));
  return std::move(found.callback);
}

Result<BoundCallback> Registry::FindBound(std::string_view name, std::string_view needed) const {
  if (name.size() > kMaxNameBytes) {
    return InvalidArgument(Cat("callout: the program asks for a callback with a name of ", name.size(), " bytes, '",
                               Shown(name), "'; expected at most ", kMaxNameBytes));
  }
  if (auto callback = BindingScope::Find(name)) return BoundCallback{std::move(callback), nullptr};
  {
    MutexLock lock(mutex_);
    if (auto it = entries_.find(name); it != entries_.end()) {
      if (const auto& held = it->second.held) return BoundCallback{held->callback(), held};
      if (auto callback = it->second.callback.lock()) return BoundCallback{std::move(callback), nullptr};
    }
  }
  CALLOUT_ASSIGN_OR_RETURN(auto made, Makers::Get().MakeForProgram(name));
  if (made != nullptr) return BoundCallback{std::move(made), nullptr};
  if (auto fallback = BindingScope::MakeFallback(name)) return BoundCallback{std::move(fallback), nullptr};
  return Status(StatusCode::kNotFound, DescribeUnbound(name, needed), StatusKind::kUnboundName);
}

bool Registry::IsBound(std::string_view name) const {
  if (BindingScope::Has(name)) return true;
  MutexLock lock(mutex_);
  const auto it = entries_.find(name);
  return it != entries_.end() && (it->second.held != nullptr || !it->second.callback.expired());
}

std::string Registry::DescribeUnbound(std::string_view name, std::string_view needed) const {
  const std::vector<std::string> names = RegisteredNames();
  std::string message = "callout: no callback is bound to the name '" + Shown(name) + "'; ";
  if (!needed.empty()) {
    message += "the program needs:";
    std::istringstream lines{std::string(needed)};
    size_t listed = 0;
    for (std::string one; std::getline(lines, one);) {
      if (++listed > kMaxListed) {
        message += " ...";
        break;
      }
      message += " '" + Shown(one) + (IsBound(one) ? "'" : "' (not bound)");
    }
    message += "; ";
  }
  if (name.starts_with(kNativePrefix)) {
    message +=
        "it is native code: build the same from the same source in this process before (callout.cpp, "
        "callout.numba), or let the program carry it (embed=True); ";
  }
  if (name.starts_with(kBoundPrefix)) {
    message +=
        "it is a Python function of the process that traced the program: give it a name (callout.register) before the "
        "program is exported; ";
  }
  message += "registered names:";
  if (names.empty()) message += " (none)";
  for (const std::string& known : names) message += " '" + known + "'";
  if (const std::string_view nearest = Nearest(name, names); !nearest.empty()) {
    message += "; did you mean '" + std::string(nearest) + "'?";
  }
  return message;
}

std::vector<std::string> Registry::RegisteredNames() const {
  std::vector<std::string> names;
  MutexLock lock(mutex_);
  for (const auto& [name, entry] : entries_) {
    if (entry.held != nullptr) names.push_back(name);
  }
  return names;
}

void Registry::Sweep() {
  if (entries_.size() < sweep_at_) return;
  std::erase_if(entries_, [](const auto& item) { return item.second.IsUnused(); });
  sweep_at_ = 2 * entries_.size() + 64;
}

}  // namespace callout::internal
