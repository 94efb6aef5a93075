// SPDX-License-Identifier: Apache-2.0
//
// Serialized callbacks, which a host gets from somewhere, and the names of callbacks in programs.
#include <string>

#include "callout/pjrt/host_callback.h"
#include "fuzz.h"
#include "registry/makers.h"
#include "sinks/value_print.h"

void callout::fuzz::Try(std::string_view bytes) {
  internal::EnsureValuePrintMaker();
  (void)internal::Makers::Get().MakeForProgram(bytes);
  // Files of any name are what these kinds are for. Here there are none.
  std::string text(bytes);
  for (const std::string_view kind : {"jsonl:", "csv:", "tensorboard:", "library:"}) {
    if (bytes.starts_with(kind)) text.insert(kind.size(), "/dev/null/");
  }
  const auto made = pjrt::OpaqueCallback("f", text).Make();
  if (!made.ok()) return;
  const auto serialized = made->Serialize();
  CALLOUT_CHECK(serialized.ok() && *serialized == text, "serialized as something else");
}
