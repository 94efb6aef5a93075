// SPDX-License-Identifier: Apache-2.0
#include "sinks/progress_bar.h"

#include "sinks/each_sink_kind.h"

namespace callout::internal {

Result<std::shared_ptr<Callback>> MakeProgressBar(const std::string& label, std::string_view /*payload*/) {
  return MakeSink(label, NullKind(), {});
}

}  // namespace callout::internal
