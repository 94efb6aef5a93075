// SPDX-License-Identifier: Apache-2.0
#include "core/base/dynamic_library.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/file_io.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U  // Linux 6.3
#endif

namespace callout::internal {
namespace {

int CreateExecutableMemory(const std::string& name) {
  const int fd = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_EXEC);
  // Kernels that do not know the flag make memory that may be executed anyway.
  return fd >= 0 || errno != EINVAL ? fd : memfd_create(name.c_str(), MFD_CLOEXEC);
}

}  // namespace

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
  constexpr size_t kLongestName = 200;  // memfd_create takes 249 bytes
  const int fd = CreateExecutableMemory(name.substr(0, kLongestName));
  if (fd < 0 || WriteAll(fd, bytes) != bytes.size()) {
    const std::string reason = std::strerror(errno);
    if (fd >= 0) close(fd);
    return ResourceExhausted("cannot load '" + name + "' from memory: " + reason);
  }
  // The loader knows libraries by path: were the descriptor closed, the next one of its number would be taken for this.
  Result<DynamicLibrary> library = Open("/proc/self/fd/" + std::to_string(fd));
  if (library.ok()) return library;
  close(fd);
  return InvalidArgument("cannot load '" + name + "' from memory: " + std::string(library.status().message()));
}

void* DynamicLibrary::Find(const std::string& symbol) const { return dlsym(handle_, symbol.c_str()); }

}  // namespace callout::internal
