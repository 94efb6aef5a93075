// SPDX-License-Identifier: Apache-2.0
//
// Reads files of `Exported.serialize`, which are flatbuffers around MLIR bytecode: the tables of the bytecode
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

/// The first bytes of MLIR bytecode, including StableHLO artifacts (mlir.llvm.org/docs/BytecodeFormat).
inline constexpr std::string_view kMlirBytecode = "ML\xefR";

/// Reads untrusted bytes: reads behind the end return zeros and make ok() false. Borrowed: the bytes.
class BytecodeReader {
 public:
  explicit BytecodeReader(std::string_view bytes) : all_(bytes), rest_(bytes) {}

  uint8_t Byte();
  uint64_t Number();
  int64_t SignedNumber();
  /// Reads a count of items that take at least a byte each. A count larger than the remaining bytes reads as 0 and
  /// makes ok() false.
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

/// Borrowed: valid as long as the bytes that it was made of.
class BytecodeFile {
 public:
  /// InvalidArgument for damage, Unimplemented for other versions.
  static Result<BytecodeFile> Read(std::string_view bytes);

  /// The section of the code.
  std::string_view code() const { return code_; }
  /// Returns, for example, "custom_call_v1" for one of VHLO's operations, "" for others.
  std::string_view OperationName(uint64_t number) const;
  /// Returns the attribute numbers of a VHLO operation's properties, in the order of their names. Nothing if there are
  /// not exactly `count`.
  std::optional<std::vector<uint64_t>> Properties(uint64_t number, size_t count) const;

  /// Returns the bytes of a string; nothing for other attributes.
  std::optional<std::string_view> StringOf(uint64_t attribute) const;
  /// Returns an integer; nothing for other attributes.
  std::optional<int64_t> NumberOf(uint64_t attribute) const;
  /// Returns the value of `name` in a dictionary; nothing for other attributes and missing names. Looks at no more than
  /// `left` entries, and subtracts the number of entries looked at from `left`.
  std::optional<uint64_t> Entry(uint64_t attribute, std::string_view name, size_t& left) const;
  /// Returns the type that a type attribute holds; nothing for other attributes.
  std::optional<uint64_t> TypeOf(uint64_t attribute) const;

  struct FunctionType {
    std::vector<uint64_t> inputs, outputs;  ///< Numbers of types.
  };
  std::optional<FunctionType> Function(uint64_t type) const;
  /// Returns the type of an array or a token, with ArrayType::kOpen for open extents; nothing for other types.
  std::optional<pjrt::ArrayType> Array(uint64_t type) const;

 private:
  enum class Dialect { kBuiltin, kVhlo, kOther };
  struct Entity {
    Dialect dialect = Dialect::kOther;
    bool is_custom = false;  // encoded by its dialect, not as text
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
  // Returns the reader of an entity, placed behind its code, if the entity is of `dialect`; otherwise sets `code` to
  // -1.
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

// Reads files of `Exported.serialize`, a program in a flatbuffer with what JAX knows about it, and of
// callout.export(..., shapes=...), which hold one program for each of several shapes.

/// Returns nothing if the bytes are no such file. The bytes are not trusted.
std::optional<pjrt::Program> ReadExportedFile(const std::string& bytes);

/// The first bytes of a file of callout.export(..., shapes=...). Behind them the file has, for each program, the number
/// of bytes (u64, little-endian) and the text of the program's label, and then the number of bytes and the content of
/// its file of `Exported.serialize`.
inline constexpr std::string_view kShapesFile = "callout.programs 1\n";

/// Requires `bytes` to begin with kShapesFile. InvalidArgument for a damaged file.
Result<pjrt::Program> ReadShapesFile(std::string_view bytes);

}  // namespace callout::internal
