// SPDX-License-Identifier: Apache-2.0
//
// Turns off leak checks in forked children of tests: memory that only the stacks of the parent's threads refer to would
// look leaked in a child, which has no such threads. Linked into every test with AddressSanitizer.
#include <unistd.h>

namespace {

const pid_t started = getpid();

}  // namespace

/// LeakSanitizer calls this before each check (<sanitizer/lsan_interface.h>). Thread-safe.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() { return getpid() != started; }
