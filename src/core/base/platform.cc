// SPDX-License-Identifier: Apache-2.0
#include "core/base/platform.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "core/base/cat.h"

#if defined(__linux__)
#include <link.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#elif defined(__APPLE__)
#include <mach-o/dyld.h>
#else
#error "callout: the core is for Linux and macOS; other systems get the wheel without C++"
#endif

namespace callout::internal {

#if defined(__linux__)

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U  // Linux 6.3
#endif

void NameThisThread(const char* name) { (void)pthread_setname_np(pthread_self(), name); }

int64_t ThreadNumber() { return syscall(SYS_gettid); }

void WakeOnTime() { (void)prctl(PR_SET_TIMERSLACK, 1000UL); }

PrivateFile CreatePrivateFile(const std::string& name, bool is_executable) {
  constexpr size_t kLongestName = 200;  // memfd_create takes 249 bytes
  const std::string known = name.substr(0, kLongestName);
  int descriptor = memfd_create(known.c_str(), MFD_CLOEXEC | (is_executable ? MFD_EXEC : 0U));
  // Older kernels lack the flag, and make memory that may be executed anyway.
  if (descriptor < 0 && errno == EINVAL) descriptor = memfd_create(known.c_str(), MFD_CLOEXEC);
  return {descriptor, Cat("/proc/self/fd/", descriptor)};
}

void HidePath(const PrivateFile& /*file*/) {}

void ForEachLibrary(const std::function<void(std::string_view path)>& visit) {
  const auto tell = [](dl_phdr_info* info, size_t /*size*/, void* data) {
    const auto& each = *static_cast<const std::function<void(std::string_view)>*>(data);
    each(info->dlpi_name ? info->dlpi_name : "");
    return 0;
  };
  // The loader lists libraries in the order of their loading.
  dl_iterate_phdr(tell, const_cast<std::function<void(std::string_view)>*>(&visit));
}

bool ExchangeFiles(const char* one, const char* other) {
  return renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE) == 0;
}

bool SyncBytes(int descriptor) { return fdatasync(descriptor) == 0; }

// Parses lines such as "3: FLOCK  ADVISORY  WRITE 4242 fe:00:1337 0 EOF".
std::optional<pid_t> FindLockHolder(const struct stat& file) {
  char wanted[64];
  std::snprintf(wanted, sizeof(wanted), "%02x:%02x:%lu", major(file.st_dev), minor(file.st_dev),
                static_cast<unsigned long>(file.st_ino));
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream fields(line);
    std::string number, kind, mode, access, where;
    pid_t pid = 0;
    if (fields >> number >> kind >> mode >> access >> pid >> where && kind == "FLOCK" && where == wanted && pid > 0) {
      return pid;
    }
  }
  return std::nullopt;
}

bool ProcessorHasCrc32() {
#if defined(__aarch64__)
  constexpr unsigned long kHasCrc32 = 1UL << 7;  // HWCAP_CRC32
  return (getauxval(AT_HWCAP) & kHasCrc32) != 0;
#else
  return false;
#endif
}

#else

void NameThisThread(const char* name) { (void)pthread_setname_np(name); }

int64_t ThreadNumber() {
  uint64_t number = 0;
  (void)pthread_threadid_np(nullptr, &number);
  return static_cast<int64_t>(number);
}

void WakeOnTime() {}

PrivateFile CreatePrivateFile(const std::string& name, bool /*is_executable*/) {
  char folder[1024] = "/tmp";
  (void)confstr(_CS_DARWIN_USER_TEMP_DIR, folder, sizeof(folder));
  std::string path = Cat(folder, "/", name.substr(0, 64), ".XXXXXX");
  const int descriptor = mkstemp(path.data());
  if (descriptor >= 0) (void)fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  return {descriptor, path};
}

void HidePath(const PrivateFile& file) { (void)unlink(file.path.c_str()); }

void ForEachLibrary(const std::function<void(std::string_view path)>& visit) {
  for (uint32_t i = 0; i < _dyld_image_count(); ++i) {
    const char* const path = _dyld_get_image_name(i);
    visit(path ? path : "");
  }
}

bool ExchangeFiles(const char* one, const char* other) { return renamex_np(one, other, RENAME_SWAP) == 0; }

// fsync leaves the bytes in the disk's own memory; F_FULLFSYNC does not, but some file systems lack it.
bool SyncBytes(int descriptor) { return fcntl(descriptor, F_FULLFSYNC) == 0 || fsync(descriptor) == 0; }

std::optional<pid_t> FindLockHolder(const struct stat& /*file*/) { return std::nullopt; }

bool ProcessorHasCrc32() { return true; }  // each of Apple's processors has them

#endif

}  // namespace callout::internal
