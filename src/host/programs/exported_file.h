// SPDX-License-Identifier: Apache-2.0
//
// Files of `Exported.serialize`, which are flatbuffers around MLIR bytecode: the tables of the bytecode
// (mlir.llvm.org/docs/BytecodeFormat), version 6, with the attributes and types that VHLO writes
// (stablehlo/dialect/VhloBytecode.cpp), and the file around them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "callout/pjrt/program.h"
#include "callout/status.h"

namespace callout::internal {

/// How MLIR bytecode begins, StableHLO artifacts among it (mlir.llvm.org/docs/BytecodeFormat).
inline constexpr std::string_view kMlirBytecode = "ML\xefR";

/// Reads bytes that may be anything: behind the end there are zeros, and ok() is false. Borrowed: the bytes.
class BytecodeReader {
 public:
  explicit BytecodeReader(std::string_view bytes) : all_(bytes), rest_(bytes) {}

  uint8_t Byte();
  uint64_t Number();
  int64_t SignedNumber();
  /// A number of things that take a byte each at least: more than there can be are none, and not ok().
  size_t Count();
  std::string_view Take(uint64_t size);
  struct Section {
    int id;
    std::string_view bytes;
  };
  Section TakeSection();

  bool is_at_end() const { return rest_.empty(); }
  bool ok() const { return ok_; }

 private:
  void Fail();

  std::string_view all_;
  std::string_view rest_;
  bool ok_ = true;
};

/// Borrowed: the bytes that it was made of.
class BytecodeFile {
 public:
  /// InvalidArgument for damage, Unimplemented for other versions.
  static Result<BytecodeFile> Read(std::string_view bytes);

  /// The code, a section.
  std::string_view code() const { return code_; }
  /// "custom_call_v1" of VHLO's operations, "" of others.
  std::string_view OperationName(uint64_t number) const;
  /// The numbers of attributes that an operation of VHLO's has, in the order of their names. Nothing if there are not
  /// `count`.
  std::optional<std::vector<uint64_t>> Properties(uint64_t number, size_t count) const;

  /// The bytes of a string, nothing for other attributes.
  std::optional<std::string_view> StringOf(uint64_t attribute) const;
  /// A number, nothing for other attributes.
  std::optional<int64_t> NumberOf(uint64_t attribute) const;
  /// The value of `name` in a dictionary; nothing for other attributes and names. Looks at `left` entries at most, and
  /// takes those that it looked at off.
  std::optional<uint64_t> Entry(uint64_t attribute, std::string_view name, size_t& left) const;
  /// The type that is an attribute.
  std::optional<uint64_t> TypeOf(uint64_t attribute) const;

  struct FunctionType {
    std::vector<uint64_t> inputs, outputs;  ///< Types.
  };
  std::optional<FunctionType> Function(uint64_t type) const;
  /// The type of an array or a token; ArrayType::kOpen for extents that are open. Nothing for what is no array.
  std::optional<pjrt::ArrayType> Array(uint64_t type) const;

 private:
  enum class Dialect { kBuiltin, kVhlo, kOther };
  struct Entity {
    Dialect dialect = Dialect::kOther;
    bool is_custom = false;  // encoded by its dialect, and not as text
    std::string_view bytes;
  };
  struct Operation {
    Dialect dialect;
    uint64_t name;
  };

  Status ReadStrings(std::string_view section);
  Status ReadDialects(std::string_view section);
  Status ReadEntities(std::string_view offsets, std::string_view data);
  Status ReadProperties(std::string_view section);
  std::string_view String(uint64_t number) const;
  // The reader of an entity behind its code, of `dialect`; `code` is -1 for others.
  BytecodeReader Open(const std::vector<Entity>& entities, uint64_t number, Dialect dialect, int64_t& code) const;
  std::optional<DType> ElementType(uint64_t type) const;

  std::vector<std::string_view> strings_;
  std::vector<Dialect> dialects_;
  std::vector<Operation> operations_;
  std::vector<Entity> attributes_;
  std::vector<Entity> types_;
  std::vector<std::string_view> properties_;
  std::string_view code_;
};

// Files of `Exported.serialize`, a program in a flatbuffer with what JAX knows about it; and of callout.export(...,
// shapes=...), one program for each of several shapes.

/// Nothing if the bytes are no such file. The bytes may come from anywhere.
std::optional<pjrt::Program> ReadExportedFile(const std::string& bytes);

/// How the files begin that callout.export(..., shapes=...) writes: then, for each program, the number of bytes (u64,
/// little-endian) and the text of its label, and the same of its file of `Exported.serialize`.
inline constexpr std::string_view kShapesFile = "callout.programs 1\n";

/// `bytes` begin as such a file. InvalidArgument for what is none.
Result<pjrt::Program> ReadShapesFile(std::string_view bytes);

}  // namespace callout::internal
