// SPDX-License-Identifier: Apache-2.0
//
// A second copy of the core for tests, since CheckOnlyCore only looks at file names. Tests that need any library with
// one function use it, too.
extern "C" __attribute__((visibility("default"))) int callout_second_core_marker() { return 1; }
