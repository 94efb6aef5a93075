// SPDX-License-Identifier: Apache-2.0
//
// dlopen with errors that name what was attempted.
#pragma once

#include <string>
#include <string_view>

#include "callout/status.h"

namespace callout::internal {

/// A function in a library: "path/lib.so:symbol", split at its last ':'. InvalidArgument if a part is missing.
struct LibrarySymbol {
  std::string path;
  std::string symbol;

  static Result<LibrarySymbol> Parse(const std::string& spec);
};

/// A loaded shared library, which is never unloaded, because compiled programs may hold its functions until the process
/// ends.
class DynamicLibrary {
 public:
  /// Loads the library at `path`, in the form that dlopen accepts. Thread-safe.
  static Result<DynamicLibrary> Open(const std::string& path);
  /// Loads the bytes of a library from anonymous memory, so that no other process can see or replace a file. `name` is
  /// for errors, and for the process's memory map. Thread-safe.
  static Result<DynamicLibrary> OpenBytes(const std::string& name, std::string_view bytes);

  /// Returns the address of a symbol; null if the library has no such symbol.
  void* Find(const std::string& symbol) const;
  const std::string& path() const { return path_; }

 private:
  DynamicLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

  void* handle_;
  std::string path_;
};

}  // namespace callout::internal
