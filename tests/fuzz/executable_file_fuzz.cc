// SPDX-License-Identifier: Apache-2.0
//
// Files of compiled programs: what is around the plugin's own bytes. Those are code, which a plugin believes: feeding
// it random ones would only show that it crashes. Each input is tried as it is, and as the fields behind a right
// digest.
#include "executables/executable_file.h"

#include <string>

#include "encoding/sha256.h"
#include "fuzz.h"

namespace {

void Read(std::string_view text) {
  using callout::internal::ExecutableFile;
  const auto file = ExecutableFile::Read(text);
  if (!file.ok()) return;
  const auto again = ExecutableFile::Read(file->Write());
  CALLOUT_CHECK(again.ok(), "a file that was written is not read");
  CALLOUT_CHECK(again->bytes == file->bytes && again->made_by == file->made_by && again->device == file->device &&
                    again->on_runners == file->on_runners,
                "a file is not read as it was written");
}

}  // namespace

void callout::fuzz::Try(std::string_view bytes) {
  Read(bytes);
  Read("callout executable 1\n" + callout::internal::Sha256Hex(bytes) + std::string(bytes));
}
