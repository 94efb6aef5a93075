// SPDX-License-Identifier: Apache-2.0
//
// dlopen with errors that say what was attempted.
#pragma once

#include <string>
#include <string_view>

#include "callout/status.h"

namespace callout::internal {

/// "path/lib.so:symbol", taken apart at its last ':'. InvalidArgument if one of the two is missing.
struct LibrarySymbol {
  std::string path;
  std::string symbol;

  static Result<LibrarySymbol> Parse(const std::string& spec);
};

/// A loaded shared library, never unloaded: compiled programs may hold its functions for as long as the process lives.
class DynamicLibrary {
 public:
  /// Thread-safe. `path` as dlopen takes it.
  static Result<DynamicLibrary> Open(const std::string& path);
  /// Loads the bytes of a library from anonymous memory: no file that others could see or replace is written. `name` is
  /// for errors, and for whoever looks at the process's mappings. Thread-safe.
  static Result<DynamicLibrary> OpenBytes(const std::string& name, std::string_view bytes);

  /// Null if the library has no such symbol.
  void* Find(const std::string& symbol) const;
  const std::string& path() const { return path_; }

 private:
  DynamicLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

  void* handle_;
  std::string path_;
};

}  // namespace callout::internal
