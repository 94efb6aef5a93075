// SPDX-License-Identifier: Apache-2.0
//
// Stands for a second copy of the core: CheckOnlyCore looks at file names only. Also any library with one function.
extern "C" __attribute__((visibility("default"))) int callout_second_core_marker() { return 1; }
