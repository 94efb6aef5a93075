// SPDX-License-Identifier: Apache-2.0
#include "sinks/files/file_sink.h"

namespace callout::internal {

Status CloseFile(Callback& sink) {
  auto* const writer = dynamic_cast<WritingSink*>(&sink);
  if (writer == nullptr) return InvalidArgument("callout: '" + sink.label() + "' writes no file");
  return writer->Close();
}

}  // namespace callout::internal
