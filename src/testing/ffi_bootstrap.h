// SPDX-License-Identifier: Apache-2.0
//
// What the FFI extension of a PJRT plugin does with a handler, for plugins of the tests.
#pragma once

namespace callout::internal {

/// Asks an XLA_FFI_Handler for its metadata, with a table that takes all further handlers and runs none.
void AskForMetadata(void* handler);

}  // namespace callout::internal
