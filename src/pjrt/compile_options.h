// SPDX-License-Identifier: Apache-2.0
//
// xla.CompileOptionsProto, which PJRT takes serialised. Its few fields that are needed are written by hand: a protobuf
// library would be a second one beside the plugin's.
#pragma once

#include <string>

#include "callout/pjrt/executable.h"

namespace callout::internal {

/// Field numbers: xla/pjrt/proto/compile_options.proto. InvalidArgument for numbers of devices that make XLA end the
/// process, and for a device assignment of another size.
Result<std::string> SerializeCompileOptions(const pjrt::CompileOptions& options);

}  // namespace callout::internal
