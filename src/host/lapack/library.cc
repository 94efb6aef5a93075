// SPDX-License-Identifier: Apache-2.0
#include "host/lapack/library.h"

#include <cstdlib>

#include "core/base/dynamic_library.h"

namespace callout::internal::lapack {
namespace {

constexpr const char* kCandidates[] = {"libopenblas.so.0", "libopenblas.so", "liblapack.so.3",
                                       "liblapack.so",     "libmkl_rt.so.2", "libmkl_rt.so"};
constexpr const char* kVariable = "CALLOUT_LAPACK";

// Opens a library and checks that it has LAPACK: some builds of OpenBLAS have none.
Result<DynamicLibrary> OpenLapack(const std::string& path) {
  CALLOUT_ASSIGN_OR_RETURN(DynamicLibrary library, DynamicLibrary::Open(path));
  if (library.Find("sgetrf_") == nullptr) return NotFound("'" + path + "' has no sgetrf_");
  return library;
}

Result<DynamicLibrary> OpenAny() {
  const char* chosen = std::getenv(kVariable);
  if (chosen != nullptr && *chosen != '\0') {
    Result<DynamicLibrary> library = OpenLapack(chosen);
    if (library.ok()) return library;
    return NotFound(std::string("callout: ") + kVariable + " names no LAPACK: " + library.status().c_message());
  }
  std::string tried;
  for (const char* candidate : kCandidates) {
    Result<DynamicLibrary> library = OpenLapack(candidate);
    if (library.ok()) return library;
    tried += (tried.empty() ? "" : ", ") + std::string(candidate);
  }
  return NotFound("callout: the program needs LAPACK, and none of " + tried +
                  " is there; install one (Debian: libopenblas0), or set " + kVariable + " to its path");
}

const Result<DynamicLibrary>& Library() {
  static const auto* const library = new Result<DynamicLibrary>(OpenAny());
  return *library;
}

}  // namespace

Result<void*> FindSymbol(const std::string& symbol) {
  const Result<DynamicLibrary>& library = Library();
  if (!library.ok()) return library.status();
  void* found = library->Find(symbol);
  if (found != nullptr) return found;
  return NotFound("callout: '" + library->path() + "' has no " + symbol);
}

Result<std::string> LibraryPath() {
  const Result<DynamicLibrary>& library = Library();
  if (!library.ok()) return library.status();
  return library->path();
}

}  // namespace callout::internal::lapack
