// SPDX-License-Identifier: Apache-2.0
#include "sinks/catalog/callback_kinds.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "core/base/invariant.h"
#include "core/callbacks/callback.h"
#include "core/callbacks/native_function.h"
#include "core/encoding/percent.h"
#include "sinks/each_sink_kind.h"
#include "sinks/inspectors/check.h"
#include "sinks/inspectors/located_nans.h"
#include "sinks/inspectors/watch.h"
#include "sinks/progress_bar.h"
#include "sinks/sink_handle.h"
#include "sinks/value_print.h"

namespace callout::internal {
namespace {

constexpr ProgramKind kProgramKinds[] = {
    {kCheckKind, "check", kDescriptions<CheckPayload>, &MakeCheck},
    {kLocatedNansKind, "locate_nans", kDescriptions<LocatedNansPayload>, &MakeLocatedNans},
    {kPrintKind, "id_print", {}, &MakeValuePrint},
    {kProgressBarKind, "progress bar", {}, &MakeProgressBar},
    {kProgressClockKind, "clock of progress bars", {}, &MakeProgressClock},
    {kSinkKind, "sink that is an argument", {}, &MakeSinkByHandle},
    {kWatchKind, "watch", kDescriptions<WatchPayload>, &MakeWatch},
};

// Parses the text between "kind," and ':'.
Result<SinkOptions::Given> ParseOptions(std::string_view text) {
  SinkOptions::Given options;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const size_t equals = one.find('=');
    const std::string_view value = equals == std::string_view::npos ? "true" : one.substr(equals + 1);
    std::optional<std::string> decoded = PercentDecoded(value);
    if (!decoded) {
      return InvalidArgument("callout: expected two hexadecimal digits after each '%' of an option, got '" +
                             std::string(value) + "'");
    }
    options.emplace_back(one.substr(0, equals), *std::move(decoded));
  }
  return options;
}

Result<std::shared_ptr<Callback>> MakeHostSink(const SinkKind& kind, const std::string& label, std::string_view main) {
  return MakeSink(label, std::string(kind.name) + ":" + std::string(main));
}

Result<std::shared_ptr<Callback>> MakeLibraryFunction(const std::string& label, std::string_view payload) {
  return LoadNativeFunction(label, std::string(payload));
}

void RegisterForHosts(const std::string& kind, Makers::Maker maker) {
  const Status status = Makers::Get().Register(kind, std::move(maker), Makers::For::kHosts);
  CALLOUT_CHECK(status.ok(), "the core's own kinds of callbacks are registered first");
}

}  // namespace

const std::vector<const SinkKind*>& SinkKinds() {
#define CALLOUT_ADDRESS(kind) &kind(),
  static const auto* const kinds = [] {
    // Leaked: programs may be loaded until the process ends.
    auto* const all = new std::vector<const SinkKind*>{CALLOUT_EACH_SINK_KIND(CALLOUT_ADDRESS)};
    std::sort(all->begin(), all->end(),
              [](const SinkKind* one, const SinkKind* other) { return std::string_view(one->name) < other->name; });
    return all;
  }();
#undef CALLOUT_ADDRESS
  return *kinds;
}

const SinkKind* FindSinkKind(std::string_view name) {
  for (const SinkKind* const kind : SinkKinds()) {
    if (kind->name == name) return kind;
  }
  return nullptr;
}

const SinkKind* SinkKindOf(std::string_view text) {
  const SinkKind* const kind = FindSinkKind(text.substr(0, text.find_first_of(",:")));
  return kind != nullptr && kind->is_for_hosts ? kind : nullptr;
}

Result<std::shared_ptr<Callback>> MakeSink(const std::string& label, std::string_view text) {
  const SinkKind* const kind = SinkKindOf(text);
  if (kind == nullptr) return NotFound("callout: there is no sink '" + std::string(text) + "'");
  const std::string_view behind = text.substr(std::string_view(kind->name).size());
  const size_t colon = behind.find(':');
  const std::string_view options = behind.substr(0, colon), main = behind.substr(options.size());
  CALLOUT_ASSIGN_OR_RETURN(SinkOptions::Given given, ParseOptions(options.substr(options.empty() ? 0 : 1)));
  if (main.size() > 1) {
    if (!kind->has_main) {
      return InvalidArgument("callout: the sink '" + std::string(kind->name) + "' takes nothing behind the ':', got '" +
                             std::string(text) + "'");
    }
    given.emplace_back(kind->options[0].name, main.substr(1));
  }
  return MakeSink(label, *kind, std::move(given));
}

std::vector<std::string> SinkForms() {
  std::vector<std::string> forms;
  for (const SinkKind* const kind : SinkKinds()) {
    if (!kind->is_for_hosts) continue;
    std::string main = kind->has_main ? std::string(":") + kind->options[0].name : "";
    for (char& c : main) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    const bool is_needed = main.empty() || kind->needs_path();
    forms.push_back(kind->name + (is_needed ? main : "[" + main + "]"));
  }
  return forms;
}

void RegisterKinds() {
  static const bool done = [] {
    for (const SinkKind* const kind : SinkKinds()) {
      if (!kind->is_for_hosts) continue;
      RegisterForHosts(kind->name, [kind](const std::string& label, std::string_view main) {
        return MakeHostSink(*kind, label, main);
      });
    }
    RegisterForHosts("library", &MakeLibraryFunction);
    for (const ProgramKind& each : kProgramKinds) Makers::Get().RegisterDefault(std::string(each.kind), each.make);
    return true;
  }();
  (void)done;
}

std::span<const ProgramKind> ProgramKinds() { return kProgramKinds; }

const char* ProgramKindOf(std::string_view name) {
  const size_t colon = name.find(':');
  if (colon == std::string_view::npos) return nullptr;
  for (const ProgramKind& each : kProgramKinds) {
    if (each.kind == name.substr(0, colon)) return each.description;
  }
  return nullptr;
}

}  // namespace callout::internal
