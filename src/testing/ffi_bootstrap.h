// SPDX-License-Identifier: Apache-2.0
//
// Imitates the FFI extension of a PJRT plugin, for the tests' plugins.
#pragma once

namespace callout::internal {

/// Asks an XLA_FFI_Handler for its metadata, with a function table that accepts all further handlers and runs none.
void AskForMetadata(void* handler);

}  // namespace callout::internal
