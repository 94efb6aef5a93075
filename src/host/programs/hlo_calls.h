// SPDX-License-Identifier: Apache-2.0
//
// What the HloModuleProto (xla/service/hlo.proto) of a compiled program tells: its signature, since PJRT itself tells
// only the types of outputs, and the places that call out. ShapeProto and OpSharding of xla_data.proto are read here,
// too.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "callout/pjrt/program.h"
#include "callout/pjrt/signature.h"
#include "callout/status.h"

namespace callout::internal {

/// The error of bytes that are not the message that they should be.
Status UnreadableHlo();

struct HloShape {
  bool is_tuple = false;
  bool is_row_major = true;                      ///< Of an array; also if nothing is said.
  pjrt::ArrayType type = {DType::kInvalid, {}};  ///< Of an array.
  std::vector<std::string_view> elements = {};   ///< Of a tuple: ShapeProtos. Borrowed from what was parsed.
};

/// Internal for bytes that are no shape of known types.
Result<HloShape> ParseHloShape(std::string_view bytes);

/// The sharding of an array of `rank` dimensions over `num_devices`. `bytes`: an OpSharding; empty: every device has
/// all of it. Errors: Unimplemented for arrays on some of the devices only, Internal for bytes that are no sharding.
Result<pjrt::Sharding> ParseSharding(std::string_view bytes, size_t rank, size_t num_devices);

/// `module`: an HloModuleProto. Errors: Internal for bytes that are no such message, and Unimplemented for shardings
/// that ParseSharding does not know.
Result<pjrt::Signature> ParseHloSignature(std::string_view module, size_t num_devices);

/// Buffers that hosts make are row-major, and plugins do not look whether a program wants another order: Unimplemented,
/// with the argument, if it does. Internal as above.
Status CheckArgumentLayouts(std::string_view module);

// The places of a compiled program that call out, from its HloModuleProto (xla/service/hlo.proto).

/// The calls in the order of the module's computations. `module`: an HloModuleProto. Internal for bytes that are no
/// such message.
Result<std::vector<pjrt::CallbackUse>> ParseHloCalls(std::string_view module);

/// As ParseHloCalls, of the custom calls that are not Callout's: only their targets, operands and results.
Result<std::vector<pjrt::CallbackUse>> ParseForeignCalls(std::string_view module);

/// The entries of a dictionary as MLIR writes it, `{callback = "f", every = 1 : i64}`: strings with their escapes
/// resolved, whole numbers as they are written, everything else as "".
std::map<std::string, std::string> ParseDictionary(std::string_view dictionary);

}  // namespace callout::internal
