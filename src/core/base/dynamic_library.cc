// SPDX-License-Identifier: Apache-2.0
#include "core/base/dynamic_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/file_io.h"
#include "core/base/platform.h"

namespace callout::internal {
Result<LibrarySymbol> LibrarySymbol::Parse(const std::string& spec) {
  const size_t colon = spec.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == spec.size()) {
    return InvalidArgument("expected \"path/lib.so:symbol\", got '" + spec + "'");
  }
  return LibrarySymbol{spec.substr(0, colon), spec.substr(colon + 1)};
}

Result<DynamicLibrary> DynamicLibrary::Open(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    return NotFound("cannot load shared library '" + path + "': " + (reason ? reason : "unknown reason"));
  }
  return DynamicLibrary(handle, path);
}

Result<DynamicLibrary> DynamicLibrary::OpenBytes(const std::string& name, std::string_view bytes) {
  const PrivateFile file = CreatePrivateFile(name, /*is_executable=*/true);
  if (file.descriptor < 0 || WriteAll(file.descriptor, bytes) != bytes.size()) {
    const std::string reason = std::strerror(errno);
    if (file.descriptor >= 0) {
      HidePath(file);
      close(file.descriptor);
    }
    return ResourceExhausted("cannot load '" + name + "' from memory: " + reason);
  }
  // The descriptor stays open. The loader identifies libraries by path, and the path contains the descriptor's number:
  // after a close, the next library with the same number would be taken for this one.
  Result<DynamicLibrary> library = Open(file.path);
  HidePath(file);
  if (library.ok()) return library;
  close(file.descriptor);
  return InvalidArgument("cannot load '" + name + "' from memory: " + std::string(library.status().message()));
}

void* DynamicLibrary::Find(const std::string& symbol) const { return dlsym(handle_, symbol.c_str()); }

}  // namespace callout::internal
