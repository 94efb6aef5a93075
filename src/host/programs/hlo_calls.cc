// SPDX-License-Identifier: Apache-2.0
#include "host/programs/hlo_calls.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/attributes/jax_calls.h"
#include "core/base/cat.h"
#include "core/encoding/percent.h"
#include "core/encoding/wire.h"
#include "core/frame/buffer.h"
#include "core/frame/elements.h"

namespace callout::internal {
namespace {

constexpr int kElementType = 2;
constexpr int kDimensions = 3;
constexpr int kTupleShapes = 4;
constexpr int kLayout = 5;
constexpr int kIsDynamic = 6;
constexpr int kMinorToMajor = 1;  // of LayoutProto
constexpr uint64_t kTuple = 13;   // of xla.PrimitiveType

bool ReadLayout(std::string_view bytes, std::vector<int64_t>& order) {
  WireReader reader(bytes);
  while (const auto field = reader.Next()) {
    if (field->number == kMinorToMajor && !AppendNumbers(*field, order)) return false;
  }
  return reader.ok();
}

}  // namespace

Status UnreadableHlo() { return InternalError("callout: the plugin tells of the program in a form that is not known"); }

Result<HloShape> ParseHloShape(std::string_view bytes) {
  HloShape shape;
  uint64_t element_type = 0;
  std::vector<int64_t> dynamic, order;
  WireReader reader(bytes);
  while (const auto field = reader.Next()) {
    if (field->number == kElementType) element_type = field->value;
    if (field->number == kDimensions && !AppendNumbers(*field, shape.type.dims)) return UnreadableHlo();
    if (field->number == kIsDynamic && !AppendNumbers(*field, dynamic)) return UnreadableHlo();
    if (field->number == kLayout && !ReadLayout(field->bytes, order)) return UnreadableHlo();
    if (field->number == kTupleShapes) shape.elements.push_back(field->bytes);
  }
  if (!reader.ok()) return UnreadableHlo();
  if (std::any_of(dynamic.begin(), dynamic.end(), [](int64_t is_dynamic) { return is_dynamic != 0; })) {
    return Unimplemented("callout: the program has arrays with bounds in place of extents");
  }
  shape.is_row_major = IsRowMajor(order);
  shape.is_tuple = element_type == kTuple;
  if (!shape.is_tuple && RowOf(static_cast<DType>(element_type)).kind == DTypeKind::kUnknown) {
    return Unimplemented(Cat("callout: the program has arrays of element type ", element_type, " of XLA"));
  }
  shape.type.dtype = static_cast<DType>(element_type);
  return shape;
}

namespace {

enum Type : uint64_t { kReplicated = 0, kTiled = 3 };
constexpr int kType = 1;
constexpr int kTileDims = 3;
constexpr int kTileDevices = 4;
constexpr int kReplicateOnLastDim = 6;
constexpr int kLastTileDims = 8;
constexpr int kIotaDims = 9;
constexpr int kIotaPermutation = 10;
constexpr int64_t kMaxTiles = 1 << 20;

struct OpSharding {
  uint64_t type = kReplicated;
  std::vector<int64_t> tile_dims;
  std::vector<int64_t> devices;
  std::vector<int64_t> iota_dims;
  std::vector<int64_t> permutation;
  std::vector<int64_t> subgroups;
  bool replicates_on_last = false;
};

bool Read(std::string_view bytes, OpSharding& sharding) {
  WireReader reader(bytes);
  bool ok = true;
  while (const auto field = reader.Next()) {
    if (field->number == kType) sharding.type = field->value;
    if (field->number == kReplicateOnLastDim) sharding.replicates_on_last = field->value != 0;
    if (field->number == kTileDims) ok = AppendNumbers(*field, sharding.tile_dims) && ok;
    if (field->number == kTileDevices) ok = AppendNumbers(*field, sharding.devices) && ok;
    if (field->number == kLastTileDims) ok = AppendNumbers(*field, sharding.subgroups) && ok;
    if (field->number == kIotaDims) ok = AppendNumbers(*field, sharding.iota_dims) && ok;
    if (field->number == kIotaPermutation) ok = AppendNumbers(*field, sharding.permutation) && ok;
  }
  return ok && reader.ok();
}

// Returns the product of extents; 0 if it cannot be a number of devices.
int64_t Product(const std::vector<int64_t>& extents) {
  int64_t product = 1;
  for (const int64_t extent : extents) {
    if (extent < 1 || extent > kMaxTiles || product > kMaxTiles / extent) return 0;
    product *= extent;
  }
  return product;
}

// Returns iota(product of dims), reshaped to dims, transposed by `permutation`; empty if the arguments do not fit.
std::vector<int64_t> Iota(const std::vector<int64_t>& dims, std::vector<int64_t> permutation) {
  if (permutation.empty()) {
    permutation.resize(dims.size());
    std::iota(permutation.begin(), permutation.end(), 0);
  }
  std::vector<int64_t> sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<int64_t>(i)) return {};
  }
  if (permutation.size() != dims.size()) return {};
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  std::vector<int64_t> devices = {0};
  for (const int64_t from : permutation) {
    std::vector<int64_t> next;
    for (const int64_t base : devices) {
      for (int64_t i = 0; i < dims[from]; ++i) next.push_back(base + i * strides[from]);
    }
    devices = std::move(next);
  }
  return devices;
}

}  // namespace

Result<pjrt::Sharding> ParseSharding(std::string_view bytes, size_t rank, size_t num_devices) {
  OpSharding proto;
  if (!Read(bytes, proto)) return InternalError("callout: the plugin tells a sharding in a form that is not known");
  pjrt::Sharding sharding{std::vector<int64_t>(rank, 1), {num_devices, std::vector<int64_t>(rank, 0)}};
  if (proto.type == kReplicated) return sharding;
  if (proto.type != kTiled) {
    return Unimplemented(Cat("callout: a sharding of type ", proto.type,
                             " (of xla.OpSharding); arrays are on all devices, whole or in tiles"));
  }
  const int64_t tiles = Product(proto.tile_dims);
  if (proto.devices.empty() && Product(proto.iota_dims) != 0) {
    proto.devices = Iota(proto.iota_dims, proto.permutation);
  }
  const size_t replicating = proto.subgroups.empty() ? (proto.replicates_on_last ? 1 : 0) : proto.subgroups.size();
  if (tiles != static_cast<int64_t>(num_devices) || proto.devices.size() != num_devices ||
      proto.tile_dims.size() != rank + replicating) {
    return InternalError(Cat("callout: the plugin tells a sharding over ", tiles, " devices in ",
                             proto.tile_dims.size(), " dimensions, for an array of ", rank, " on ", num_devices));
  }
  std::copy_n(proto.tile_dims.begin(), rank, sharding.tiles.begin());
  for (size_t i = 0; i < num_devices; ++i) {
    const int64_t device = proto.devices[i];
    if (device < 0 || device >= static_cast<int64_t>(num_devices)) {
      return InternalError(Cat("callout: the plugin tells a sharding with a device ", device));
    }
    auto rest = static_cast<int64_t>(i);
    for (size_t d = proto.tile_dims.size(); d-- > 0; rest /= proto.tile_dims[d]) {
      if (d < rank) sharding.parts[static_cast<size_t>(device)][d] = rest % proto.tile_dims[d];
    }
  }
  return sharding;
}

namespace {

// Field numbers of HloModuleProto.
constexpr int kProgramShape = 4;
constexpr int kAliases = 8;
constexpr int kOutputSharding = 12;
constexpr int kParameterSharding = 14;
constexpr int kBufferDonors = 18;
// Field numbers of ProgramShapeProto.
constexpr int kParameters = 1;
constexpr int kResult = 2;
// Field numbers of OpSharding.
constexpr int kTupleShardings = 5;
// Field numbers of the entries of HloInputOutputAliasProto and HloBufferDonorProto.
constexpr int kEntries = 1;
constexpr int kAliasParameter = 2;
constexpr int kDonorParameter = 1;

struct Module {
  std::string_view program_shape;
  std::string_view output_sharding;
  std::vector<std::string_view> parameter_shardings;
  std::vector<int64_t> donatable;
};

void AddDonated(std::string_view message, int parameter_field, std::vector<int64_t>& donatable) {
  WireReader entries(message);
  while (const auto entry = entries.Next()) {
    if (entry->number != kEntries || !entry->is_bytes) continue;
    int64_t parameter = 0;  // proto3 omits zeros
    WireReader fields(entry->bytes);
    while (const auto field = fields.Next()) {
      if (field->number == parameter_field) parameter = static_cast<int64_t>(field->value);
    }
    donatable.push_back(parameter);
  }
}

Result<Module> ReadModule(std::string_view bytes) {
  Module module;
  WireReader reader(bytes);
  while (const auto field = reader.Next()) {
    if (field->number == kProgramShape) module.program_shape = field->bytes;
    if (field->number == kOutputSharding) module.output_sharding = field->bytes;
    if (field->number == kParameterSharding) module.parameter_shardings.push_back(field->bytes);
    if (field->number == kAliases) AddDonated(field->bytes, kAliasParameter, module.donatable);
    if (field->number == kBufferDonors) AddDonated(field->bytes, kDonorParameter, module.donatable);
  }
  std::sort(module.donatable.begin(), module.donatable.end());
  module.donatable.erase(std::unique(module.donatable.begin(), module.donatable.end()), module.donatable.end());
  if (!reader.ok()) return UnreadableHlo();
  return module;
}

Result<std::vector<pjrt::ProgramArray>> ReadArrays(const std::vector<std::string_view>& shapes,
                                                   const std::vector<std::string_view>& shardings, size_t num_devices) {
  std::vector<pjrt::ProgramArray> arrays;
  for (size_t i = 0; i < shapes.size(); ++i) {
    CALLOUT_ASSIGN_OR_RETURN(HloShape shape, ParseHloShape(shapes[i]));
    const std::string_view sharding = i < shardings.size() ? shardings[i] : std::string_view();
    pjrt::ProgramArray array{std::move(shape.type), {}};
    CALLOUT_ASSIGN_OR_RETURN(array.sharding, ParseSharding(sharding, array.type.dims.size(), num_devices));
    for (size_t axis = 0; axis < array.type.dims.size(); ++axis) {
      int64_t whole = 0;  // ProgramArray::WholeType computes this product
      if (__builtin_mul_overflow(array.type.dims[axis], array.sharding.tiles[axis], &whole)) return UnreadableHlo();
    }
    arrays.push_back(std::move(array));
  }
  return arrays;
}

// Returns the shardings of a tuple's elements, or the one sharding if it is no tuple.
std::vector<std::string_view> ElementShardings(std::string_view sharding) {
  std::vector<std::string_view> elements;
  WireReader reader(sharding);
  while (const auto field = reader.Next()) {
    if (field->number == kTupleShardings && field->is_bytes) elements.push_back(field->bytes);
  }
  if (elements.empty()) elements.push_back(sharding);
  return elements;
}

}  // namespace

Status CheckArgumentLayouts(std::string_view bytes) {
  CALLOUT_ASSIGN_OR_RETURN(const Module module, ReadModule(bytes));
  WireReader shapes(module.program_shape);
  for (size_t i = 0; const auto field = shapes.Next();) {
    if (field->number != kParameters) continue;
    CALLOUT_ASSIGN_OR_RETURN(const HloShape shape, ParseHloShape(field->bytes));
    if (!shape.is_row_major) {
      return Unimplemented(Cat("callout: argument ", i, " of the program, ", shape.type.ToString(),
                               ", is in another layout than row-major"));
    }
    ++i;
  }
  return shapes.ok() ? OkStatus() : UnreadableHlo();
}

Result<pjrt::Signature> ParseHloSignature(std::string_view bytes, size_t num_devices) {
  CALLOUT_ASSIGN_OR_RETURN(const Module module, ReadModule(bytes));
  if (module.program_shape.empty()) return UnreadableHlo();
  std::vector<std::string_view> parameters;
  std::string_view result;
  WireReader shape(module.program_shape);
  while (const auto field = shape.Next()) {
    if (field->number == kParameters) parameters.push_back(field->bytes);
    if (field->number == kResult) result = field->bytes;
  }
  if (!shape.ok()) return UnreadableHlo();
  CALLOUT_ASSIGN_OR_RETURN(const HloShape returned, ParseHloShape(result));
  const std::vector<std::string_view> results =
      returned.is_tuple ? returned.elements : std::vector<std::string_view>{result};
  pjrt::Signature signature;
  CALLOUT_ASSIGN_OR_RETURN(signature.inputs, ReadArrays(parameters, module.parameter_shardings, num_devices));
  CALLOUT_ASSIGN_OR_RETURN(signature.outputs,
                           ReadArrays(results, ElementShardings(module.output_sharding), num_devices));
  signature.donatable = module.donatable;
  return signature;
}

namespace {

constexpr std::string_view kOurTargets = "callout.v";
// Field numbers of HloModuleProto.
constexpr int kComputations = 3;
// Field numbers of HloComputationProto.
constexpr int kInstructions = 2;
// Field numbers of HloInstructionProto.
constexpr int kShape = 3;
constexpr int kTarget = 28;
constexpr int kId = 35;
constexpr int kOperandIds = 36;
constexpr int kBackendConfig = 43;

struct Instruction {
  int64_t id = 0;
  std::string_view shape;
  std::string_view target;
  std::string_view config;
  std::vector<int64_t> operands;
};

Result<Instruction> ReadInstruction(std::string_view bytes) {
  Instruction instruction;
  WireReader reader(bytes);
  while (const auto field = reader.Next()) {
    if (field->number == kShape) instruction.shape = field->bytes;
    if (field->number == kTarget) instruction.target = field->bytes;
    if (field->number == kBackendConfig) instruction.config = field->bytes;
    if (field->number == kId) instruction.id = static_cast<int64_t>(field->value);
    if (field->number == kOperandIds && !AppendNumbers(*field, instruction.operands)) return UnreadableHlo();
  }
  if (!reader.ok()) return UnreadableHlo();
  return instruction;
}

// Appends the array, or the arrays of the tuple. Tokens are left out.
Status AppendArrays(std::string_view shape_bytes, std::vector<pjrt::ArrayType>& arrays) {
  CALLOUT_ASSIGN_OR_RETURN(HloShape shape, ParseHloShape(shape_bytes));
  if (shape.is_tuple) {
    for (const std::string_view element : shape.elements) {
      CALLOUT_ASSIGN_OR_RETURN(HloShape inner, ParseHloShape(element));
      if (!inner.is_tuple && inner.type.dtype != DType::kToken) arrays.push_back(std::move(inner.type));
    }
  } else if (shape.type.dtype != DType::kToken) {
    arrays.push_back(std::move(shape.type));
  }
  return OkStatus();
}

// Appends the computation's calls: Callout's and JAX's callbacks if `ours_only`, else all other custom calls.
Status AppendCalls(std::string_view computation, bool ours_only, std::vector<pjrt::CallbackUse>& calls) {
  std::map<int64_t, Instruction> by_id;
  std::vector<int64_t> wanted;
  WireReader reader(computation);
  while (const auto field = reader.Next()) {
    if (field->number != kInstructions || !field->is_bytes) continue;
    CALLOUT_ASSIGN_OR_RETURN(Instruction instruction, ReadInstruction(field->bytes));
    const bool is_ours = instruction.target.starts_with(kOurTargets) || IsJaxTarget(instruction.target);
    if (!instruction.target.empty() && is_ours == ours_only) wanted.push_back(instruction.id);
    by_id[instruction.id] = std::move(instruction);
  }
  if (!reader.ok()) return UnreadableHlo();
  for (const int64_t id : wanted) {
    const Instruction& instruction = by_id[id];
    std::map<std::string, std::string> attributes = ParseDictionary(instruction.config);
    // A Callout target without a `callback` attribute reads an object of the host, and calls nothing.
    if (ours_only && !IsJaxTarget(instruction.target) && !attributes.contains(std::string(kCallbackAttribute)))
      continue;
    const bool is_embedded = attributes.contains(std::string(kLibraryAttribute));
    std::string callback = std::move(attributes[std::string(kCallbackAttribute)]);
    if (IsJaxTarget(instruction.target)) {
      callback = std::string(kJaxNamePrefix) + attributes[std::string(kJaxIndexAttribute)];
    }
    pjrt::CallbackUse use{std::move(callback), std::string(instruction.target), is_embedded, {}, {}};
    for (const int64_t operand : instruction.operands) {
      const auto it = by_id.find(operand);
      if (it == by_id.end()) return UnreadableHlo();
      CALLOUT_RETURN_IF_ERROR(AppendArrays(it->second.shape, use.operands));
    }
    CALLOUT_RETURN_IF_ERROR(AppendArrays(instruction.shape, use.results));
    calls.push_back(std::move(use));
  }
  return OkStatus();
}

// Takes a string literal off the front of `text`, which begins behind the opening quote.
std::string TakeString(std::string_view& text) {
  std::string value;
  while (!text.empty() && text.front() != '"') {
    char c = text.front();
    text.remove_prefix(1);
    if (c == '\\' && !text.empty()) {
      const std::optional<char> code = internal::HexByte(text);
      c = code.value_or(text.front());
      text.remove_prefix(code ? 2 : 1);
    }
    value += c;
  }
  if (!text.empty()) text.remove_prefix(1);
  return value;
}

}  // namespace

std::map<std::string, std::string> ParseDictionary(std::string_view text) {
  std::map<std::string, std::string> entries;
  int depth = 0;
  std::string word;              // the text since the last punctuation, quoted or not
  std::string* value = nullptr;  // of the entry that is being read; null before its '='
  // Takes the digits of a number such as "1 : i64".
  const auto take_number = [&] {
    if (value != nullptr && value->empty()) *value = word.substr(0, word.find_first_not_of("-0123456789"));
  };
  while (!text.empty()) {
    const char c = text.front();
    text.remove_prefix(1);
    if (c == '"') {
      word = TakeString(text);
      if (depth == 1 && value != nullptr) *value = std::exchange(word, "");
      continue;
    }
    if (depth == 1 && (c == ',' || c == '}')) take_number();
    if (c == '{' || c == '[' || c == '<' || c == '(') ++depth;
    if (c == '}' || c == ']' || c == '>' || c == ')') --depth;
    if (depth != 1) continue;
    if (c == '=') {
      value = &entries[word];
      word.clear();
    } else if (c == ',' || c == '{') {
      value = nullptr;
      word.clear();
    } else if (c != ' ') {
      word += c;
    }
  }
  return entries;
}

static Result<std::vector<pjrt::CallbackUse>> ParseCalls(std::string_view module, bool ours_only) {
  std::vector<pjrt::CallbackUse> calls;
  WireReader reader(module);
  while (const auto field = reader.Next()) {
    if (field->number == kComputations) CALLOUT_RETURN_IF_ERROR(AppendCalls(field->bytes, ours_only, calls));
  }
  if (!reader.ok()) return UnreadableHlo();
  return calls;
}

Result<std::vector<pjrt::CallbackUse>> ParseHloCalls(std::string_view module) {
  return ParseCalls(module, /*ours_only=*/true);
}

Result<std::vector<pjrt::CallbackUse>> ParseForeignCalls(std::string_view module) {
  return ParseCalls(module, /*ours_only=*/false);
}

}  // namespace callout::internal
