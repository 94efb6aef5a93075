// SPDX-License-Identifier: Apache-2.0
// Counts how often C code takes the GIL. If preloaded, this library interposes libpython's functions for calls from
// other libraries.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>

static atomic_long taken;
static _Thread_local int inside;

long gil_taken(void) { return taken; }

int PyGILState_Ensure(void) {
  static int (*next)(void);
  if (next == 0) next = (int (*)(void))dlsym(RTLD_NEXT, "PyGILState_Ensure");
  ++inside;
  const int had = next();
  --inside;
  if (had == 1) ++taken;  // PyGILState_UNLOCKED: the GIL was not held
  return had;
}

void PyEval_RestoreThread(void* state) {
  static void (*next)(void*);
  if (next == 0) next = (void (*)(void*))dlsym(RTLD_NEXT, "PyEval_RestoreThread");
  if (inside == 0) ++taken;
  next(state);
}
