// SPDX-License-Identifier: Apache-2.0
//
// A program to compile, and what its file says about it.
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

  DType dtype;                ///< Of its elements.
  std::vector<int64_t> dims;  ///< Extents, in elements.

  /// Tells whether both have the same dtype and dims.
  bool operator==(const ArrayType&) const = default;
  /// "f32[2,3]"; "f32[?,3]" where an extent is open.
  CALLOUT_EXPORT std::string ToString() const;
};

/// A StableHLO program: MLIR text, MLIR bytecode, or a portable artifact (what jax.export writes in
/// `Exported.mlir_module_serialized`). What the other members hold is only known of a file of `Exported.serialize`.
struct Program {
  std::string code;  ///< Its StableHLO, as a plugin takes it.

  std::string name = {};                    ///< The function's; empty if unknown.
  std::vector<std::string> platforms = {};  ///< Those that it was exported for, as JAX calls them; empty if unknown.
  int num_devices = 0;                      ///< Over which its arrays are sharded; 0 if unknown.
  std::vector<int> kept_arguments = {};     ///< Which of the function's arguments the program takes.
  size_t num_tokens = 0;                    ///< It takes so many tokens before its arguments, for ordered effects.
  bool has_dimension_arguments = false;     ///< It was exported for symbolic shapes.
  std::string written_by = {};              ///< "jax 0.12.0"; empty if unknown.

  /// The sizes that this program is for, "b=3", in a file of callout.export(..., shapes=...); else empty.
  std::string shapes = {};
  /// The same function for other shapes, each a program without others. Compile makes one executable of all, which
  /// chooses by its arguments.
  std::vector<Program> others = {};

  /// Takes any of these kinds, and the bytes of `Exported.serialize`. InvalidArgument for none of them.
  CALLOUT_EXPORT static Result<Program> FromBytes(std::string bytes);
  /// As FromBytes, and NotFound, PermissionDenied with the path.
  CALLOUT_EXPORT static Result<Program> FromFile(const std::string& path);

  /// Returns the StableHLO version that a portable artifact was written for, such as "1.13.0"; empty for what has none.
  CALLOUT_EXPORT std::string StablehloVersion() const;
};

}  // namespace callout::pjrt
