// SPDX-License-Identifier: Apache-2.0
//
// Writes xla.CompileOptionsProto, which PJRT takes serialised. The few fields that are needed are written by hand,
// because a protobuf library would clash with the plugin's own.
#pragma once

#include <string>

#include "callout/pjrt/executable.h"

namespace callout::internal {

/// Serialises the options. Field numbers: xla/pjrt/proto/compile_options.proto. `partitions`: the number of partitions
/// if the options leave it open. InvalidArgument for numbers of devices that would make XLA end the process, and for a
/// device assignment of the wrong size.
Result<std::string> SerializeCompileOptions(pjrt::CompileOptions options, int partitions = 1);

/// Returns the options of a portable executable: it runs on one device, which each execution chooses.
std::string SerializePortableOptions();

}  // namespace callout::internal
