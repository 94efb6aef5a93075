// SPDX-License-Identifier: Apache-2.0
//
// A program to compile, and the description of it that its file contains.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "callout/dtype.h"
#include "callout/export.h"
#include "callout/status.h"

namespace callout::pjrt {

/// The type of an array.
struct ArrayType {
  static constexpr int64_t kOpen = INT64_MIN;  ///< An extent that a program leaves open (ProgramContents).

  DType dtype;                ///< Element type.
  std::vector<int64_t> dims;  ///< Extents, in elements.

  /// Returns whether both have the same dtype and dims.
  bool operator==(const ArrayType&) const = default;
  /// Returns "f32[2,3]"; "f32[?,3]" where an extent is open.
  CALLOUT_EXPORT std::string ToString() const;
};

/// A StableHLO program: MLIR text, MLIR bytecode, or a portable artifact (jax.export writes one in
/// `Exported.mlir_module_serialized`). Members after `code` are known only for a file of `Exported.serialize`.
struct Program {
  std::string code;  ///< The StableHLO code, in a form that plugins accept.

  std::string name = {};                    ///< The function's name; empty if unknown.
  std::vector<std::string> platforms = {};  ///< Platforms that it was exported for, in JAX's names; empty if unknown.
  int num_devices = 0;                      ///< Number of devices over which its arrays are sharded; 0 if unknown.
  std::vector<int> kept_arguments = {};     ///< Numbers of the function's arguments that the program takes.
  size_t num_tokens = 0;  ///< Number of tokens that the program takes before its arguments, for ordered effects.
  bool has_dimension_arguments = false;  ///< True if the program was exported for symbolic shapes.
  std::string written_by = {};           ///< The exporter, "jax 0.12.0"; empty if unknown.

  /// The sizes that this program is for, "b=3", in a file of callout.export(..., shapes=...); else empty.
  std::string shapes = {};
  /// The programs of this program's function for other shapes, each with an empty list. Compile makes one executable of
  /// all programs, and the executable chooses one by its arguments.
  std::vector<Program> others = {};

  /// Makes a program from StableHLO in any of these forms, or from the bytes of `Exported.serialize`. InvalidArgument
  /// for other bytes.
  CALLOUT_EXPORT static Result<Program> FromBytes(std::string bytes);
  /// Reads a program from a file. Errors: those of FromBytes; NotFound and PermissionDenied with the path.
  CALLOUT_EXPORT static Result<Program> FromFile(const std::string& path);

  /// Returns the StableHLO version that a portable artifact was written for, such as "1.13.0"; empty for other forms.
  CALLOUT_EXPORT std::string StablehloVersion() const;
};

}  // namespace callout::pjrt
