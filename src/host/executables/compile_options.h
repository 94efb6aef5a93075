// SPDX-License-Identifier: Apache-2.0
//
// xla.CompileOptionsProto, which PJRT takes serialised. Its few fields that are needed are written by hand: a protobuf
// library would be a second one beside the plugin's.
#pragma once

#include <string>

#include "callout/pjrt/executable.h"

namespace callout::internal {

/// Field numbers: xla/pjrt/proto/compile_options.proto. `partitions`: how many there are if the options leave it open.
/// InvalidArgument for numbers of devices that make XLA end the process, and for a device assignment of another size.
Result<std::string> SerializeCompileOptions(pjrt::CompileOptions options, int partitions = 1);

/// The message for a program that one device runs, whichever it is told to when it runs.
std::string SerializePortableOptions();

}  // namespace callout::internal
