// SPDX-License-Identifier: Apache-2.0
//
// Reads the HloModuleProto (xla/service/hlo.proto) of a compiled program: its signature, because PJRT itself reports
// only the types of outputs, and its calls to the host. Also parses ShapeProto and OpSharding of xla_data.proto.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "callout/pjrt/program.h"
#include "callout/pjrt/signature.h"
#include "callout/status.h"

namespace callout::internal {

/// Returns the error for bytes that are not the expected message.
Status UnreadableHlo();

struct HloShape {
  bool is_tuple = false;
  bool is_row_major = true;                      ///< For an array; true if the layout is missing.
  pjrt::ArrayType type = {DType::kInvalid, {}};  ///< The type of an array.
  /// A tuple's ShapeProtos. Borrowed: valid as long as the parsed bytes.
  std::vector<std::string_view> elements = {};
};

/// Internal for bytes that are no shape of known types.
Result<HloShape> ParseHloShape(std::string_view bytes);

/// Returns the sharding of an array of `rank` dimensions over `num_devices`. `bytes`: an OpSharding; empty means that
/// every device has the whole array. Errors: Unimplemented for arrays on only some of the devices, Internal for bytes
/// that are no sharding.
Result<pjrt::Sharding> ParseSharding(std::string_view bytes, size_t rank, size_t num_devices);

/// Returns the signature. `module`: an HloModuleProto. Errors: Internal for bytes that are no such message, and
/// Unimplemented for shardings that ParseSharding does not know.
Result<pjrt::Signature> ParseHloSignature(std::string_view module, size_t num_devices);

/// Checks that the program wants row-major arguments: hosts make row-major buffers, and plugins do not compare the
/// order. Errors: Unimplemented, with the argument, for another order; Internal for bytes that are no HloModuleProto.
Status CheckArgumentLayouts(std::string_view module);

// The calls to the host in a compiled program, read from its HloModuleProto (xla/service/hlo.proto).

/// Returns the calls of callbacks, in the order of the module's computations. `module`: an HloModuleProto. Internal for
/// bytes that are no such message.
Result<std::vector<pjrt::CallbackUse>> ParseHloCalls(std::string_view module);

/// Like ParseHloCalls, but returns the custom calls that are neither Callout's nor JAX's callbacks, with only their
/// targets, operands and results.
Result<std::vector<pjrt::CallbackUse>> ParseForeignCalls(std::string_view module);

/// Returns the entries of a dictionary in MLIR's text form, `{callback = "f", every = 1 : i64}`: strings with their
/// escapes resolved, whole numbers as written, everything else as "".
std::map<std::string, std::string> ParseDictionary(std::string_view dictionary);

}  // namespace callout::internal
