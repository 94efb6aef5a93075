// SPDX-License-Identifier: Apache-2.0
#include "callout/pjrt/binding.h"

#include <filesystem>
#include <string_view>

#include "sinks/catalog/callback_kinds.h"

namespace callout::pjrt {
namespace {

// Adds "./" to "lib.so:SYMBOL" if the working directory has a library of that name, so that the linker does not look
// elsewhere.
std::string WithFolder(const std::string& library_and_symbol) {
  const std::string library = library_and_symbol.substr(0, library_and_symbol.rfind(':'));
  std::error_code ignored;
  const bool is_here = library.find('/') == std::string::npos && std::filesystem::exists(library, ignored);
  return is_here ? "./" + library_and_symbol : library_and_symbol;
}

bool IsLibrary(const std::string& kind) {
  return kind.find(".so:") != std::string::npos || kind.find(".so.") != std::string::npos;
}

// True for a sink with the path that it needs. The path may contain anything.
bool IsSink(const std::string& text) {
  const internal::SinkKind* const kind = internal::SinkKindOf(text);
  return kind != nullptr && (!kind->needs_path() || text.find(':') != std::string::npos);
}

bool IsKind(const std::string& text) {
  if (IsSink(text)) return true;
  return IsLibrary(text) && text.substr(0, text.rfind(':')).find('=') == std::string::npos;
}

// Returns the '=' of NAME=KIND. Names may contain '=': the first '=' that is followed by a kind counts, or else the
// first one.
size_t FindEquals(const std::string& text) {
  for (size_t at = text.find('='); at != std::string::npos; at = text.find('=', at + 1)) {
    if (at > 0 && IsKind(text.substr(at + 1))) return at;
  }
  return text.find('=');
}

}  // namespace

std::string BindingForms() {
  std::string forms;
  for (const std::string& form : internal::SinkForms()) forms += "NAME=" + form + ", ";
  return forms + "or NAME=lib.so:SYMBOL";
}

Result<LoadedHostCallback> ParseBinding(const std::string& text) {
  const size_t equals = FindEquals(text);
  const std::string kind = equals == std::string::npos ? "" : text.substr(equals + 1);
  if (equals == 0 || kind.empty()) {
    return InvalidArgument("callout: '" + text + "' binds nothing; write " + BindingForms());
  }
  const bool is_library = !IsSink(kind) && IsLibrary(kind);
  auto made = OpaqueCallback(text.substr(0, equals), is_library ? "library:" + WithFolder(kind) : kind).Make();
  if (made.ok()) return made;
  std::string_view reason = made.status().message();
  constexpr std::string_view kPrefix = "callout: ";
  if (reason.starts_with(kPrefix)) reason.remove_prefix(kPrefix.size());
  return made.status().WithMessage("callout: '" + text + "': " + std::string(reason));
}

const char* KindWithoutBinding(const std::string& name) { return internal::ProgramKindOf(name); }

}  // namespace callout::pjrt
