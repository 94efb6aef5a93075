// SPDX-License-Identifier: Apache-2.0
#include "host/programs/exported_file.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "core/base/cat.h"
#include "core/frame/elements.h"
#include "exported_generated.h"

namespace callout::internal {
namespace {

constexpr uint64_t kBytecodeVersion = 6;
constexpr size_t kMostDims = 64;
constexpr size_t kMostEntries = 1024;  // of a dictionary
enum SectionId {
  kSectionStrings = 0,
  kSectionDialects = 1,
  kSectionEntities = 2,
  kSectionOffsets = 3,
  kSectionCode = 4,
  kSectionProperties = 8,
  kSectionCount
};

// Codes of VHLO's attributes and types.
enum AttributeCode { kDictionaryCode = 6, kIntegerCode = 9, kStringCode = 14, kTypeCode = 17 };
enum TypeCode { kComplexCode = 1, kFunctionCode = 8, kTensorCode = 20, kTokenCode = 22 };

// Codes of MLIR's own dialect, which has the attributes that VHLO does not replace.
enum BuiltinCode { kBuiltinDictionary = 1, kBuiltinString = 2 };

std::optional<DType> ElementOf(int64_t code) {
  for (const DTypeRow& row : kDTypeRows) {
    if (row.vhlo_code >= 0 && row.vhlo_code == code) return row.dtype;
  }
  return std::nullopt;
}

Status Damaged(const char* what) {
  return InvalidArgument(std::string("callout: the program's bytecode is damaged: ") + what);
}

}  // namespace

void BytecodeReader::Fail() {
  ok_ = false;
  rest_ = {};
}

uint8_t BytecodeReader::Byte() {
  const std::string_view byte = Take(1);
  return byte.empty() ? 0 : static_cast<uint8_t>(byte[0]);
}

std::string_view BytecodeReader::Take(uint64_t size) {
  if (size > rest_.size()) {
    Fail();
    return {};
  }
  const std::string_view taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
}

uint64_t BytecodeReader::Number() {
  const uint8_t first = Byte();
  if ((first & 1) != 0) return first >> 1;
  const int extra = first == 0 ? 8 : std::countr_zero(first);
  const std::string_view bytes = Take(static_cast<uint64_t>(extra));
  uint64_t number = 0;
  for (size_t i = 0; i < bytes.size(); ++i) number |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  if (first == 0) return number;
  if (extra == 7) return number;  // the first byte holds only the length
  return (number << (7 - extra)) | (first >> (extra + 1));
}

int64_t BytecodeReader::SignedNumber() {
  const uint64_t number = Number();
  return static_cast<int64_t>((number >> 1) ^ (~(number & 1) + 1));
}

size_t BytecodeReader::Count() {
  const uint64_t count = Number();
  if (count <= rest_.size()) return static_cast<size_t>(count);
  Fail();
  return 0;
}

BytecodeReader::Section BytecodeReader::TakeSection() {
  constexpr uint8_t kIsAligned = 0x80;
  const uint8_t head = Byte();
  const uint64_t size = Number();
  if ((head & kIsAligned) != 0) {
    const uint64_t alignment = Number();
    if (!std::has_single_bit(alignment) || alignment > all_.size()) {
      Fail();
    } else {
      while (ok_ && (all_.size() - rest_.size()) % alignment != 0) (void)Byte();
    }
  }
  return {head & ~kIsAligned, Take(size)};
}

Result<BytecodeFile> BytecodeFile::Read(std::string_view bytes) {
  if (!bytes.starts_with(kMlirBytecode)) return Unimplemented("callout: the program is no MLIR bytecode");
  BytecodeReader reader(bytes);
  (void)reader.Take(kMlirBytecode.size());
  if (const uint64_t version = reader.Number(); version != kBytecodeVersion) {
    return Unimplemented(Cat("callout: the program is MLIR bytecode of version ", version, "; only version ",
                             kBytecodeVersion, " can be read without a plugin"));
  }
  while (reader.ok() && reader.Byte() != 0) {  // the name of the producer
  }
  std::string_view sections[kSectionCount];
  while (reader.ok() && !reader.is_at_end()) {
    const BytecodeReader::Section section = reader.TakeSection();
    if (section.id < kSectionCount) sections[section.id] = section.bytes;
  }
  if (!reader.ok()) return Damaged("its sections");
  BytecodeFile file;
  file.code_ = sections[kSectionCode];
  CALLOUT_RETURN_IF_ERROR(file.ReadStrings(sections[kSectionStrings]));
  CALLOUT_RETURN_IF_ERROR(file.ReadDialects(sections[kSectionDialects]));
  CALLOUT_RETURN_IF_ERROR(file.ReadEntities(sections[kSectionOffsets], sections[kSectionEntities]));
  CALLOUT_RETURN_IF_ERROR(file.ReadProperties(sections[kSectionProperties]));
  return file;
}

Status BytecodeFile::ReadStrings(std::string_view section) {
  BytecodeReader reader(section);
  std::vector<uint64_t> sizes(reader.Count());
  for (uint64_t& size : sizes) size = reader.Number();
  std::ranges::reverse(sizes);  // the file has the sizes in reverse order
  for (const uint64_t size : sizes) {
    const std::string_view text = reader.Take(size);
    strings_.push_back(text.substr(0, text.empty() ? 0 : text.size() - 1));  // without the zero at the end
  }
  return reader.ok() ? OkStatus() : Damaged("its strings");
}

Status BytecodeFile::ReadDialects(std::string_view section) {
  BytecodeReader reader(section);
  const size_t count = reader.Count();
  for (size_t i = 0; i < count && reader.ok(); ++i) {
    const uint64_t head = reader.Number();
    const std::string_view name = String(head >> 1);
    dialects_.push_back(name == "vhlo" ? Dialect::kVhlo : name == "builtin" ? Dialect::kBuiltin : Dialect::kOther);
    if ((head & 1) != 0) (void)reader.TakeSection();  // the dialect's version
  }
  (void)reader.Number();  // the number of all operations
  while (reader.ok() && !reader.is_at_end()) {
    const uint64_t dialect = reader.Number();
    const size_t operations = reader.Count();
    if (dialect >= dialects_.size()) return Damaged("an operation of no dialect");
    for (size_t i = 0; i < operations; ++i) operations_.push_back({dialects_[dialect], reader.Number() >> 1});
  }
  return reader.ok() ? OkStatus() : Damaged("its dialects");
}

Status BytecodeFile::ReadEntities(std::string_view offsets, std::string_view data) {
  BytecodeReader reader(offsets), entities(data);
  const uint64_t counts[] = {reader.Number(), reader.Number()};
  for (auto* const each : {&attributes_, &types_}) {
    const uint64_t count = counts[each == &attributes_ ? 0 : 1];
    while (reader.ok() && each->size() < count) {
      const uint64_t dialect = reader.Number();
      const size_t group = reader.Count();
      if (dialect >= dialects_.size() || group > count - each->size()) return Damaged("its attributes and types");
      for (size_t i = 0; i < group; ++i) {
        const uint64_t head = reader.Number();
        each->push_back({dialects_[dialect], (head & 1) != 0, entities.Take(head >> 1)});
      }
    }
  }
  return reader.ok() && entities.ok() ? OkStatus() : Damaged("its attributes and types");
}

Status BytecodeFile::ReadProperties(std::string_view section) {
  if (section.empty()) return OkStatus();
  BytecodeReader reader(section);
  const size_t count = reader.Count();
  for (size_t i = 0; i < count && reader.ok(); ++i) properties_.push_back(reader.Take(reader.Number()));
  return reader.ok() ? OkStatus() : Damaged("its properties");
}

std::string_view BytecodeFile::String(uint64_t number) const {
  return number < strings_.size() ? strings_[number] : std::string_view();
}

std::string_view BytecodeFile::OperationName(uint64_t number) const {
  const bool is_vhlo = number < operations_.size() && operations_[number].dialect == Dialect::kVhlo;
  return is_vhlo ? String(operations_[number].name) : std::string_view();
}

std::optional<std::vector<uint64_t>> BytecodeFile::Properties(uint64_t number, size_t count) const {
  if (number >= properties_.size()) return std::nullopt;
  BytecodeReader reader(properties_[number]);
  std::vector<uint64_t> attributes(count);
  for (uint64_t& attribute : attributes) attribute = reader.Number();
  if (!reader.ok() || !reader.is_at_end()) return std::nullopt;
  return attributes;
}

BytecodeReader BytecodeFile::Open(const std::vector<Entity>& entities, uint64_t number, Dialect dialect,
                                  int64_t& code) const {
  code = -1;
  if (number >= entities.size()) return BytecodeReader("");
  const Entity& entity = entities[number];
  BytecodeReader reader(entity.bytes);
  if (entity.is_custom && entity.dialect == dialect) code = static_cast<int64_t>(reader.Number());
  return reader;
}

std::optional<std::string_view> BytecodeFile::StringOf(uint64_t attribute) const {
  int64_t code = 0;
  for (const auto& [dialect, wanted] :
       {std::pair(Dialect::kVhlo, int64_t{kStringCode}), std::pair(Dialect::kBuiltin, int64_t{kBuiltinString})}) {
    BytecodeReader reader = Open(attributes_, attribute, dialect, code);
    if (code == wanted) return String(reader.Number());
  }
  return std::nullopt;
}

std::optional<int64_t> BytecodeFile::NumberOf(uint64_t attribute) const {
  int64_t code = 0;
  BytecodeReader reader = Open(attributes_, attribute, Dialect::kVhlo, code);
  if (code != kIntegerCode) return std::nullopt;
  const std::optional<DType> type = ElementType(reader.Number());
  if (!type) return std::nullopt;
  return BitWidth(*type) <= 8 ? reader.Byte() : reader.SignedNumber();
}

std::optional<uint64_t> BytecodeFile::Entry(uint64_t attribute, std::string_view name, size_t& left) const {
  int64_t code = 0;
  for (const auto& [dialect, wanted] : {std::pair(Dialect::kVhlo, int64_t{kDictionaryCode}),
                                        std::pair(Dialect::kBuiltin, int64_t{kBuiltinDictionary})}) {
    BytecodeReader reader = Open(attributes_, attribute, dialect, code);
    if (code != wanted) continue;
    for (size_t more = std::min(reader.Count(), kMostEntries); more > 0 && left > 0 && reader.ok(); --more, --left) {
      const uint64_t key = reader.Number(), value = reader.Number();
      if (StringOf(key) == name) return value;
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> BytecodeFile::TypeOf(uint64_t attribute) const {
  int64_t code = 0;
  BytecodeReader reader = Open(attributes_, attribute, Dialect::kVhlo, code);
  if (code != kTypeCode) return std::nullopt;
  return reader.Number();
}

std::optional<BytecodeFile::FunctionType> BytecodeFile::Function(uint64_t type) const {
  int64_t code = 0;
  BytecodeReader reader = Open(types_, type, Dialect::kVhlo, code);
  if (code != kFunctionCode) return std::nullopt;
  FunctionType function;
  for (auto* const each : {&function.inputs, &function.outputs}) {
    each->resize(reader.Count());
    for (uint64_t& one : *each) one = reader.Number();
  }
  return reader.ok() ? std::optional(std::move(function)) : std::nullopt;
}

std::optional<DType> BytecodeFile::ElementType(uint64_t type) const {
  int64_t code = 0;
  BytecodeReader reader = Open(types_, type, Dialect::kVhlo, code);
  if (code == kComplexCode) {
    int64_t part = 0;
    (void)Open(types_, reader.Number(), Dialect::kVhlo, part);
    const std::optional<DType> element = ElementOf(part);
    if (element == DType::kFloat32) return DType::kComplex64;
    return element == DType::kFloat64 ? std::optional(DType::kComplex128) : std::nullopt;
  }
  return ElementOf(code);
}

std::optional<pjrt::ArrayType> BytecodeFile::Array(uint64_t type) const {
  int64_t code = 0;
  BytecodeReader reader = Open(types_, type, Dialect::kVhlo, code);
  if (code == kTokenCode) return pjrt::ArrayType{DType::kToken, {}};
  if (code != kTensorCode) return std::nullopt;
  std::vector<int64_t> dims(std::min(reader.Count(), kMostDims + 1));
  if (dims.size() > kMostDims) return std::nullopt;
  for (int64_t& dim : dims) {
    dim = reader.SignedNumber();
    if (dim < 0) dim = pjrt::ArrayType::kOpen;
  }
  const std::optional<DType> element = ElementType(reader.Number());
  if (!reader.ok() || !element) return std::nullopt;
  return pjrt::ArrayType{*element, std::move(dims)};
}

namespace {

std::string TextOf(const flatbuffers::String* text) { return text == nullptr ? "" : text->str(); }

}  // namespace

std::optional<pjrt::Program> ReadExportedFile(const std::string& bytes) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  if (!exported::VerifyExportedBuffer(verifier)) return std::nullopt;
  const exported::Exported& file = *exported::GetExported(bytes.data());
  if (file.mlir_module_serialized() == nullptr || file.mlir_module_serialized()->size() == 0) return std::nullopt;
  pjrt::Program program;
  program.code.assign(file.mlir_module_serialized()->begin(), file.mlir_module_serialized()->end());
  program.name = TextOf(file.function_name());
  if (file.platforms() != nullptr) {
    for (const flatbuffers::String* platform : *file.platforms()) program.platforms.push_back(TextOf(platform));
  }
  // Newer files have the wider field.
  const int64_t devices = std::max<int64_t>(file.nr_devices(), file.nr_devices_short());
  program.num_devices = static_cast<int>(std::clamp<int64_t>(devices, 0, 1 << 20));
  if (file.module_kept_var_idx() != nullptr) {
    program.kept_arguments.assign(file.module_kept_var_idx()->begin(), file.module_kept_var_idx()->end());
  }
  program.num_tokens = file.ordered_effects() == nullptr ? 0 : file.ordered_effects()->size();
  program.has_dimension_arguments = file.uses_global_constants();
  if (file.jax_version() != nullptr) program.written_by = "jax " + file.jax_version()->str();
  return program;
}

namespace {

// Takes a part off the front of `bytes`.
std::optional<std::string_view> TakePart(std::string_view& bytes) {
  uint64_t size = 0;
  if (bytes.size() < sizeof(size)) return std::nullopt;
  for (size_t i = 0; i < sizeof(size); ++i) size |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  bytes.remove_prefix(sizeof(size));
  if (size > bytes.size()) return std::nullopt;
  const std::string_view part = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return part;
}

Status NoFile(const std::string& why) {
  return InvalidArgument("callout: the file of programs for several shapes is damaged: " + why);
}

}  // namespace

Result<pjrt::Program> ReadShapesFile(std::string_view bytes) {
  bytes.remove_prefix(kShapesFile.size());
  std::optional<pjrt::Program> first;
  while (!bytes.empty()) {
    const auto label = TakePart(bytes);
    const auto file = label ? TakePart(bytes) : std::nullopt;
    if (!file) return NoFile("it ends too early");
    auto program = ReadExportedFile(std::string(*file));
    if (!program) return NoFile("the program for '" + std::string(*label) + "' is none");
    program->shapes = *label;
    if (first) {
      first->others.push_back(*std::move(program));
    } else {
      first = std::move(program);
    }
  }
  if (!first) return NoFile("it has no program");
  return *std::move(first);
}

}  // namespace callout::internal
