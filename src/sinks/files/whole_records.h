// SPDX-License-Identifier: Apache-2.0
//
// How much of a file that a process left behind is whole records: what is behind that it did not finish writing.
#pragma once

#include <cstdint>
#include <functional>

#include "callout/status.h"

namespace callout::internal {

/// The end of the last of them in the `size` bytes of a file that is open for reading. Errors: Internal, with errno's
/// text; InvalidArgument for a file of another kind.
using FindEnd = std::function<Result<uint64_t>(int fd, uint64_t size)>;

/// Records are lines.
Result<uint64_t> EndOfLines(int fd, uint64_t size);

/// Records have a length and checksums, see sinks/tf_record.h.
Result<uint64_t> EndOfTfRecords(int fd, uint64_t size);

}  // namespace callout::internal
