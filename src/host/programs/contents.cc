// SPDX-License-Identifier: Apache-2.0
#include "callout/pjrt/contents.h"

#include <string>
#include <utility>

#include "core/attributes/jax_calls.h"
#include "host/programs/exported_file.h"
#include "host/programs/text_contents.h"
#include "host/programs/written_call.h"

namespace callout::pjrt {
namespace {

using internal::BytecodeFile;
using internal::BytecodeReader;

constexpr int kDeepest = 256;  // nesting of regions
constexpr size_t kMostCalls = 1 << 16;
constexpr size_t kMostArrays = 1 << 17;
constexpr size_t kMostEntries = 1 << 22;    // dictionary entries read in total
constexpr size_t kMostNameBytes = 1 << 24;  // of all calls together
constexpr size_t kLongestName = 4096;       // longer than any name that can be bound

Status Unreadable(const char* what) {
  return InvalidArgument(std::string("callout: the program's bytecode is damaged: ") + what);
}

// Walks the operations of a module, in their order.
class Walk {
 public:
  explicit Walk(const BytecodeFile& file) : file_(file), values_left_(file.code().size()) {}

  Result<ProgramContents> Run() {
    BytecodeReader reader(file_.code());
    Values values;
    size_t next = 0;
    CALLOUT_RETURN_IF_ERROR(ReadBlock(reader, values, next, 0));
    if (!reader.ok()) return Unreadable("its code");
    if (!has_main_) return Unimplemented("callout: the program has no function 'main' of VHLO; compile it instead");
    return std::move(contents_);
  }

 private:
  // The types of all values so far, in the order of the values' numbers.
  using Values = std::vector<uint64_t>;

  struct Operation {
    uint64_t name = 0;
    uint64_t attributes = kNone;
    uint64_t properties = kNone;
    std::vector<uint64_t> results, operands;  // their types
  };
  static constexpr uint64_t kNone = UINT64_MAX;

  static Status Set(Values& values, size_t& next, uint64_t type) {
    if (next >= values.size()) return Unreadable("more values than it says");
    values[next++] = type;
    return OkStatus();
  }

  Status ReadBlock(BytecodeReader& reader, Values& values, size_t& next, int depth) {
    const uint64_t head = reader.Number();
    if ((head & 1) != 0) {
      const size_t count = reader.Count();
      for (size_t left = count; left > 0; --left) {
        const uint64_t argument = reader.Number();
        if ((argument & 1) != 0) (void)reader.Number();  // the argument's location
        CALLOUT_RETURN_IF_ERROR(Set(values, next, argument >> 1));
      }
      if (reader.Byte() != 0) SkipUseOrders(reader, count);
    }
    for (uint64_t left = head >> 1; left > 0; --left) {
      CALLOUT_RETURN_IF_ERROR(ReadOperation(reader, values, next, depth));
      if (!reader.ok()) return Unreadable("its code");
    }
    return OkStatus();
  }

  // Skips the order of the uses of `count` values, by which compilers print.
  static void SkipUseOrders(BytecodeReader& reader, size_t count) {
    for (size_t values = count > 1 ? reader.Count() : 1; values > 0; --values) {
      if (count > 1) (void)reader.Number();  // the value's index
      const uint64_t head = reader.Number();
      for (uint64_t left = head >> 1; left > 0 && reader.ok(); --left) (void)reader.Number();
    }
  }

  Status ReadOperation(BytecodeReader& reader, Values& values, size_t& next, int depth) {
    enum {
      kAttributes = 1,
      kResults = 2,
      kOperands = 4,
      kSuccessors = 8,
      kRegions = 16,
      kUseOrders = 32,
      kProperties = 64
    };
    Operation operation;
    operation.name = reader.Number();
    const uint8_t has = reader.Byte();
    (void)reader.Number();  // the operation's location
    if ((has & kAttributes) != 0) operation.attributes = reader.Number();
    if ((has & kProperties) != 0) operation.properties = reader.Number();
    if ((has & kResults) != 0) {
      operation.results.resize(reader.Count());
      for (uint64_t& type : operation.results) type = reader.Number();
    }
    if ((has & kOperands) != 0) {
      operation.operands.resize(reader.Count());
      for (uint64_t& type : operation.operands) {
        const uint64_t value = reader.Number();
        if (value >= values.size()) return Unreadable("an operand that is no value");
        type = values[value];
      }
    }
    if ((has & kSuccessors) != 0) {
      for (size_t left = reader.Count(); left > 0; --left) (void)reader.Number();
    }
    if ((has & kUseOrders) != 0) SkipUseOrders(reader, operation.results.size());
    for (const uint64_t type : operation.results) CALLOUT_RETURN_IF_ERROR(Set(values, next, type));
    if (!reader.ok()) return Unreadable("its code");
    CALLOUT_RETURN_IF_ERROR(Take(operation));
    return (has & kRegions) != 0 ? ReadRegions(reader, values, depth + 1) : OkStatus();
  }

  Status ReadRegions(BytecodeReader& reader, Values& values, int depth) {
    if (depth > kDeepest) return Unimplemented("callout: the program's regions are too deep");
    const uint64_t head = reader.Number();
    if ((head & 1) == 0) return ReadRegionsOf(reader, head >> 1, values, depth);
    // An isolated region, which sees no values from outside.
    const BytecodeReader::Section section = reader.TakeSection();
    BytecodeReader inner(section.bytes);
    Values own;
    return ReadRegionsOf(inner, head >> 1, own, depth);
  }

  Status ReadRegionsOf(BytecodeReader& reader, uint64_t count, Values& values, int depth) {
    for (; count > 0; --count) {
      const size_t blocks = reader.Count();
      if (!reader.ok()) return Unreadable("its regions");
      if (blocks == 0) continue;
      const uint64_t more = reader.Number();
      const size_t base = values.size();
      if (more > values_left_) return Unreadable("the number of its values");
      values_left_ -= more;
      values.resize(base + more, kNone);
      size_t next = base;
      for (size_t i = 0; i < blocks; ++i) CALLOUT_RETURN_IF_ERROR(ReadBlock(reader, values, next, depth));
      values.resize(base);
    }
    return OkStatus();
  }

  Status Take(const Operation& operation) {
    const std::string_view name = file_.OperationName(operation.name);
    if (name == "func_v1") return TakeFunction(operation);
    if (name == "custom_call_v1") return TakeCall(operation, 8);
    if (name == "custom_call_v2") return TakeCall(operation, 9);  // StableHLO 1.18 adds one property at the end
    if (!name.starts_with("custom_call")) return OkStatus();
    return Unimplemented("callout: the program has operations '" + std::string(name.substr(0, kLongestName)) +
                         "' of a newer StableHLO than can be read without a plugin");
  }

  Status TakeFunction(const Operation& operation) {
    enum { kArguments, kType, kResults, kName, kVisibility, kCount };
    const auto properties = file_.Properties(operation.properties, kCount);
    if (!properties) return Unreadable("a function");
    if (file_.StringOf((*properties)[kName]) != "main") return OkStatus();
    const auto type = file_.TypeOf((*properties)[kType]);
    const auto function = type ? file_.Function(*type) : std::nullopt;
    if (!function) return Unreadable("the type of a function");
    has_main_ = true;
    CALLOUT_ASSIGN_OR_RETURN(contents_.inputs, Arrays(function->inputs));
    CALLOUT_ASSIGN_OR_RETURN(contents_.outputs, Arrays(function->outputs));
    return OkStatus();
  }

  Status TakeCall(const Operation& operation, size_t num_properties) {
    enum { kVersion, kConfig, kTarget, kComputations, kSideEffect };
    const auto properties = file_.Properties(operation.properties, num_properties);
    const auto target = properties ? file_.StringOf((*properties)[kTarget]) : std::nullopt;
    if (!target || target->size() > kLongestName) return Unreadable("a custom call");
    if (contents_.callbacks.size() + contents_.custom_calls.size() >= kMostCalls) {
      return Unimplemented("callout: the program has too many custom calls");
    }
    internal::WrittenCall call;
    CALLOUT_ASSIGN_OR_RETURN(call.operands, Arrays(operation.operands));
    CALLOUT_ASSIGN_OR_RETURN(call.results, Arrays(operation.results));
    CALLOUT_RETURN_IF_ERROR(CountName(*target));
    call.target = *target;
    call.has_shape_operands =
        file_.Entry(operation.attributes, internal::kShapeOperandsAttribute, entries_left_).has_value();
    // JAX puts the dictionary into this attribute, where older versions of StableHLO have it.
    uint64_t config = (*properties)[kConfig];
    if (const auto moved = file_.Entry(operation.attributes, "mhlo.backend_config", entries_left_)) config = *moved;
    if (const auto index = file_.Entry(config, internal::kJaxIndexAttribute, entries_left_)) {
      call.jax_index = file_.NumberOf(*index);
    }
    if (const auto entry = file_.Entry(config, internal::kCallbackAttribute, entries_left_)) {
      const auto name = file_.StringOf(*entry);
      call.callback = name ? name->substr(0, kLongestName) : "";
      CALLOUT_RETURN_IF_ERROR(CountName(*call.callback));
    }
    call.is_embedded = file_.Entry(config, internal::kLibraryAttribute, entries_left_).has_value();
    if (entries_left_ == 0) return Unimplemented("callout: the program's calls have too many attributes");
    internal::AddCall(std::move(call), contents_);
    return OkStatus();
  }

  // Counts names in total, because many calls may share the bytes of one name in the file.
  Status CountName(std::string_view name) {
    if (name.size() > name_bytes_left_) return Unimplemented("callout: the names of the program's calls are too long");
    name_bytes_left_ -= name.size();
    return OkStatus();
  }

  Result<std::vector<ArrayType>> Arrays(const std::vector<uint64_t>& types) {
    if (types.size() > arrays_left_) return Unimplemented("callout: the program has too many arrays");
    arrays_left_ -= types.size();
    std::vector<ArrayType> arrays;
    for (const uint64_t type : types) {
      auto array = file_.Array(type);
      if (!array) {
        return Unimplemented("callout: the program has values that are no arrays");
      }
      arrays.push_back(*std::move(array));
    }
    return arrays;
  }

  const BytecodeFile& file_;
  size_t values_left_;  // each value takes at least a byte of the file
  size_t arrays_left_ = kMostArrays;
  size_t entries_left_ = kMostEntries;
  size_t name_bytes_left_ = kMostNameBytes;
  bool has_main_ = false;
  ProgramContents contents_;
};

}  // namespace

Result<ProgramContents> ReadContents(const Program& program) {
  if (!program.code.starts_with(internal::kMlirBytecode)) return internal::ReadTextContents(program.code);
  CALLOUT_ASSIGN_OR_RETURN(const BytecodeFile file, BytecodeFile::Read(program.code));
  return Walk(file).Run();
}

}  // namespace callout::pjrt
