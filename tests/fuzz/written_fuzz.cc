// SPDX-License-Identifier: Apache-2.0
//
// The files that `callout cat` reads.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "callout/pjrt/written_rows.h"
#include "fuzz.h"

void callout::fuzz::Try(std::string_view bytes) {
  static const int fd = memfd_create("written", MFD_CLOEXEC);
  CALLOUT_CHECK(
      ftruncate(fd, 0) == 0 && pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
      "memory holds a file");
  int rows = 0;
  (void)pjrt::ForEachWrittenRow("/proc/self/fd/" + std::to_string(fd), [&](const pjrt::WrittenRow& row) {
    std::string text;
    for (const pjrt::WrittenCell& cell : row) AppendCellJson(cell, text);
    return ++rows < 100;
  });
}
