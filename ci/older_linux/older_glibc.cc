// SPDX-License-Identifier: Apache-2.0
// Functions that this machine's headers and libstdc++.a need and older glibc versions lack, implemented by older
// functions. For write_libraries.py.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>

extern "C" {

// glibc before 2.33 has these functions, with a version of the struct as first argument. Linkers only find them with
// their symbol version: each processor's first, or the version that introduced fstatat, if it is later.
#if defined(__aarch64__)
#define FIRST_GLIBC "2.17"
#define GLIBC_OF_FSTATAT "2.17"
constexpr int kStatVersion = 0;
#else
#define FIRST_GLIBC "2.2.5"
#define GLIBC_OF_FSTATAT "2.4"
constexpr int kStatVersion = 1;
#endif
int OldStat(int version, const char* path, struct stat* out);
int OldFstat(int version, int descriptor, struct stat* out);
int OldLstat(int version, const char* path, struct stat* out);
int OldFstatat(int version, int folder, const char* path, struct stat* out, int flags);

int stat(const char* path, struct stat* out) noexcept { return OldStat(kStatVersion, path, out); }
int fstat(int descriptor, struct stat* out) noexcept { return OldFstat(kStatVersion, descriptor, out); }
int lstat(const char* path, struct stat* out) noexcept { return OldLstat(kStatVersion, path, out); }
int fstatat(int folder, const char* path, struct stat* out, int flags) noexcept {
  return OldFstatat(kStatVersion, folder, path, out, flags);
}

asm(".symver OldStat, __xstat@GLIBC_" FIRST_GLIBC);
asm(".symver OldFstat, __fxstat@GLIBC_" FIRST_GLIBC);
asm(".symver OldLstat, __lxstat@GLIBC_" FIRST_GLIBC);
asm(".symver OldFstatat, __fxstatat@GLIBC_" GLIBC_OF_FSTATAT);

// glibc 2.32 introduced a flag for single-threaded processes, in which libstdc++ counts without atomic operations.
// Programs with XLA have threads, so the flag is false.
extern const char __libc_single_threaded;
const char __libc_single_threaded = 0;

}  // extern "C"

namespace {

// Waits like libstdc++ before glibc 2.30: measures the time to wait by the steady clock, and waits by the system clock.
int WaitByRealTime(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  timespec now, real;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &real);
  constexpr long kSecond = 1'000'000'000;
  real.tv_sec += until->tv_sec - now.tv_sec;
  real.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (real.tv_nsec < 0) {
    real.tv_nsec += kSecond;
    --real.tv_sec;
  } else if (real.tv_nsec >= kSecond) {
    real.tv_nsec -= kSecond;
    ++real.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &real);
}

}  // namespace

// glibc has this function since 2.30.
extern "C" int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                      const timespec* until) {
  static auto* const own = reinterpret_cast<decltype(&WaitByRealTime)>(dlsym(RTLD_DEFAULT, "pthread_cond_clockwait"));
  return (own != nullptr ? own : WaitByRealTime)(condition, mutex, clock, until);
}
