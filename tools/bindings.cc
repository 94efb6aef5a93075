// SPDX-License-Identifier: Apache-2.0
#include "bindings.h"

#include <filesystem>

namespace callout::tools {
namespace {

// "lib.so:SYMBOL", where a library of that name lies in the working directory, is not looked for elsewhere.
std::string WithFolder(const std::string& library_and_symbol) {
  const std::string library = library_and_symbol.substr(0, library_and_symbol.rfind(':'));
  std::error_code ignored;
  const bool is_here = library.find('/') == std::string::npos && std::filesystem::exists(library, ignored);
  return is_here ? "./" + library_and_symbol : library_and_symbol;
}

}  // namespace

Result<pjrt::LoadedHostCallback> ParseBinding(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string kind = equals == std::string::npos ? "" : text.substr(equals + 1);
  if (equals == 0 || kind.empty()) {
    return InvalidArgument("callout: '" + text +
                           "' binds nothing; write NAME=print, NAME=null, NAME=jsonl:FILE or NAME=lib.so:SYMBOL");
  }
  const bool is_library = kind.find(".so:") != std::string::npos || kind.find(".so.") != std::string::npos;
  return pjrt::OpaqueCallback(text.substr(0, equals), is_library ? "library:" + WithFolder(kind) : kind).Make();
}

}  // namespace callout::tools
