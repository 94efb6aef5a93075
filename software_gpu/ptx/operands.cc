// SPDX-License-Identifier: Apache-2.0
//
// Assembles operands: registers, numbers, addresses of variables, special registers (PTX ISA 4.5, 6, 10).
#include <bit>

#include "ptx/assembler.h"

namespace callout::software_gpu::ptx {
namespace {

struct SpecialName {
  std::string_view name;
  Special special;
  uint8_t mode = 0;
  int64_t constant = 0;
};

// The device looks like one multiprocessor, with clusters of one block.
constexpr SpecialName kSpecials[] = {
    {"%tid.x", Special::kThread, 0},
    {"%tid.y", Special::kThread, 1},
    {"%tid.z", Special::kThread, 2},
    {"%ntid.x", Special::kBlockExtent, 0},
    {"%ntid.y", Special::kBlockExtent, 1},
    {"%ntid.z", Special::kBlockExtent, 2},
    {"%ctaid.x", Special::kBlock, 0},
    {"%ctaid.y", Special::kBlock, 1},
    {"%ctaid.z", Special::kBlock, 2},
    {"%nctaid.x", Special::kGridExtent, 0},
    {"%nctaid.y", Special::kGridExtent, 1},
    {"%nctaid.z", Special::kGridExtent, 2},
    {"%clusterid.x", Special::kBlock, 0},
    {"%clusterid.y", Special::kBlock, 1},
    {"%clusterid.z", Special::kBlock, 2},
    {"%nclusterid.x", Special::kGridExtent, 0},
    {"%nclusterid.y", Special::kGridExtent, 1},
    {"%nclusterid.z", Special::kGridExtent, 2},
    {"%cluster_ctaid.x", Special::kConstant},
    {"%cluster_ctaid.y", Special::kConstant},
    {"%cluster_ctaid.z", Special::kConstant},
    {"%cluster_nctaid.x", Special::kConstant, 0, 1},
    {"%cluster_nctaid.y", Special::kConstant, 0, 1},
    {"%cluster_nctaid.z", Special::kConstant, 0, 1},
    {"%cluster_ctarank", Special::kConstant},
    {"%cluster_nctarank", Special::kConstant, 0, 1},
    {"%is_explicit_cluster", Special::kConstant},
    {"%laneid", Special::kLane},
    {"%warpid", Special::kWarp},
    {"%nwarpid", Special::kWarps},
    {"%smid", Special::kConstant},
    {"%nsmid", Special::kConstant, 0, 1},
    {"%gridid", Special::kConstant},
    {"%lanemask_eq", Special::kLaneMaskEq},
    {"%lanemask_le", Special::kLaneMaskLe},
    {"%lanemask_lt", Special::kLaneMaskLt},
    {"%lanemask_ge", Special::kLaneMaskGe},
    {"%lanemask_gt", Special::kLaneMaskGt},
    {"%clock", Special::kTime},
    {"%clock_hi", Special::kTimeHigh},
    {"%clock64", Special::kTime},
    {"%globaltimer", Special::kTime},
    {"%globaltimer_lo", Special::kTime},
    {"%globaltimer_hi", Special::kTimeHigh},
    {"%dynamic_smem_size", Special::kDynamicShared},
    {"%total_smem_size", Special::kTotalShared},
    {"%aggr_smem_size", Special::kTotalShared},
    {"WARP_SZ", Special::kConstant, 0, 32},
};

}  // namespace

void RoutineAssembler::Fail(const std::string& what) const {
  const int line = statement_ == nullptr ? text_.line : statement_->line;
  throw ReadError(line, (statement_ == nullptr ? text_.name : statement_->spelling) + ": " + what);
}

void RoutineAssembler::ExpectOperands(size_t least, size_t most) const {
  const size_t count = statement_->operands.size();
  if (count < least || count > most) Fail("it has " + std::to_string(count) + " operands");
}

std::optional<Name> RoutineAssembler::Find(const std::string& name) const {
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  const bool numbered = digits < name.size() && name.size() - digits < 8;
  for (int32_t at = scope_; at >= 0; at = scopes_[at].parent) {
    const Scope& scope = scopes_[at];
    if (auto found = scope.names.find(name); found != scope.names.end()) return found->second;
    if (!numbered) continue;
    const auto range = scope.ranges.find(name.substr(0, digits));
    if (range == scope.ranges.end()) continue;
    const uint64_t number = std::stoull(name.substr(digits));
    if (number >= range->second.second) continue;
    Name element = range->second.first;
    element.slot += static_cast<Slot>(number);
    return element;
  }
  const Name* known = module_.Find(name);
  return known == nullptr ? std::nullopt : std::optional<Name>(*known);
}

int RoutineAssembler::RegisterBits(const Operand& operand) const {
  if (operand.kind != Operand::kName) return 0;
  const std::optional<Name> name = Find(operand.name);
  return name && name->kind == Name::kRegister ? Bits(name->type) : 0;
}

Slot RoutineAssembler::Source(const Operand& operand, Type type) {
  switch (operand.kind) {
    case Operand::kInteger:
    case Operand::kFloat32:
    case Operand::kFloat64:
      return Number(operand, type);
    case Operand::kName:
      return NamedSource(operand, type);
    default:
      Fail("an operand that is neither a register nor a number");
  }
}

Slot RoutineAssembler::Number(const Operand& operand, Type type) {
  const int bits = Bits(type) == 0 ? 64 : Bits(type);
  if (operand.kind == Operand::kInteger) {
    if (type == Type::kF32 || type == Type::kF64) Fail("an integer where a float is expected");
    return module_.Constant(ZeroExtend(operand.value, bits));
  }
  // A float literal of one size may stand for a float of the other (PTX ISA 4.5.2).
  const double value = operand.kind == Operand::kFloat64 ? std::bit_cast<double>(operand.value)
                                                         : std::bit_cast<float>(static_cast<uint32_t>(operand.value));
  if (type == Type::kF64 || (operand.kind == Operand::kFloat64 && bits == 64)) {
    return module_.Constant(std::bit_cast<uint64_t>(value));
  }
  if (bits != 32 || IsPacked(type)) Fail("a float where another type is expected");
  if (operand.kind == Operand::kFloat32) return module_.Constant(operand.value);  // keeps the bits of a NaN
  return module_.Constant(std::bit_cast<uint32_t>(static_cast<float>(value)));
}

Slot RoutineAssembler::NamedSource(const Operand& operand, Type type) {
  const std::optional<Name> name = Find(operand.name);
  if (name && name->kind == Name::kRegister) {
    if (name->type == Type::kB128) Fail("registers of 128 bits are not known: " + operand.name);
    if ((name->type == Type::kPred) != (type == Type::kPred)) {
      Fail(operand.name + (type == Type::kPred ? " is no predicate" : " is a predicate"));
    }
    if (operand.value != 0) Fail("a number added to a register");
    if (!operand.negated) return name->slot;
    const Slot negated = NewRegister();
    const Slot from = name->slot;
    static const Operation kNot = FindOperation("not.pred");
    if (!kNot.value) Fail("a negated predicate");
    Instruction& instruction = EmitPlain(RunOperation);
    instruction.operation = kNot;
    instruction.to = negated;
    instruction.in[0] = from;
    return negated;
  }
  if (operand.negated) Fail("unknown predicate " + operand.name);
  const Slot value = NewRegister();
  if (!name && operand.value == 0 && SpecialRegister(operand.name, value)) return value;
  if (!name) Fail("unknown name " + operand.name);
  if (name->kind == Name::kGlobal) return GlobalAddress(name->variable, operand.value);
  if (name->kind == Name::kShared) return SharedAddress(name->variable, operand.value);
  AddressOf(*name, operand.value, value);
  return value;
}

bool RoutineAssembler::AddressOf(const Name& name, uint64_t offset, Slot to) {
  if (name.kind == Name::kRegister) return false;
  Handler handler = RunMove;
  Slot from = kNoSlot;
  if (name.kind == Name::kGlobal) from = GlobalAddress(name.variable, offset);
  if (name.kind == Name::kShared) from = SharedAddress(name.variable, offset);
  if (name.kind == Name::kRoutine) from = module_.Constant(kCodeWindow + name.routine);
  if (name.kind == Name::kKernelParameter) from = module_.Constant(name.offset + offset);
  if (name.kind == Name::kFrame) handler = RunLocalAddress;
  if (name.kind == Name::kDynamicShared) handler = RunSpecial;
  Instruction& instruction = EmitPlain(handler);
  instruction.kind = static_cast<uint8_t>(Special::kDynamicBase);
  instruction.in[0] = from;
  instruction.to = to;
  instruction.offset = static_cast<int64_t>(name.offset + offset);
  return true;
}

Slot RoutineAssembler::SharedAddress(const std::string& variable, uint64_t offset) {
  const Variable& declared = module_.SharedVariable(variable);
  if (!text_.entry) {
    return module_.OwnConstant(offset + module_.PlaceShared(variable, declared.bytes, declared.alignment));
  }
  // A kernel has only those of the module's variables that it uses. They lie behind the variables of functions that it
  // calls.
  auto& own = module_.kernel_shared_[index_];
  auto [found, fresh] = scopes_[0].names.try_emplace("shared " + variable);
  if (fresh) {
    found->second.offset = (own.bytes + declared.alignment - 1) / declared.alignment * declared.alignment;
    own.bytes = found->second.offset + declared.bytes;
  }
  const Slot slot = module_.OwnConstant(found->second.offset + offset);
  own.constants.push_back(static_cast<uint32_t>(-1 - slot));
  return slot;
}

Slot RoutineAssembler::GlobalAddress(const std::string& variable, uint64_t offset) {
  const Slot slot = module_.OwnConstant(0);
  module_.code_.uses.push_back({static_cast<uint32_t>(-1 - slot), variable, offset});
  return slot;
}

bool RoutineAssembler::SpecialRegister(const std::string& name, Slot to) {
  const auto emit = [&](Special special, int mode, int64_t constant) {
    Instruction& instruction = EmitPlain(RunSpecial);
    instruction.kind = static_cast<uint8_t>(special);
    instruction.mode = static_cast<uint8_t>(mode);
    instruction.offset = constant;
    instruction.to = to;
    instruction.register_bits = name == "%clock" || name.ends_with("_lo") ? 32 : 64;
    return true;
  };
  for (const SpecialName& special : kSpecials) {
    if (special.name == name) return emit(special.special, special.mode, special.constant);
  }
  if (!name.starts_with("%envreg") || name.size() < 8 || name.size() > 9) return false;
  int number = 0;
  for (char digit : name.substr(7)) {
    if (digit < '0' || digit > '9') return false;
    number = number * 10 + (digit - '0');
  }
  return number < 32 && emit(Special::kEnvironment, number, 0);
}

Slot RoutineAssembler::Target(const Operand& operand, int bits) {
  if (operand.kind != Operand::kName || operand.negated || operand.value != 0) Fail("a result that is no register");
  if (operand.name == "_") {
    if (scratch_ == kNoSlot) scratch_ = NewRegister();
    return scratch_;
  }
  const std::optional<Name> name = Find(operand.name);
  if (!name || name->kind != Name::kRegister) Fail("unknown register " + operand.name);
  if (name->type == Type::kB128) Fail("registers of 128 bits are not known: " + operand.name);
  if (Bits(name->type) < bits || (name->type == Type::kPred) != (bits == 1)) {
    Fail("register " + operand.name + " has another size than the result");
  }
  return name->slot;
}

void RoutineAssembler::Address(Instruction& instruction, const Operand& operand, Space space) {
  if (operand.kind != Operand::kAddress) Fail("expected an address in []");
  instruction.offset = static_cast<int64_t>(operand.value);
  static constexpr Place kPlaces[] = {Place::kGeneric, Place::kGeneric, Place::kGlobal,         Place::kGlobal,
                                      Place::kShared,  Place::kLocal,   Place::kKernelParameter};
  instruction.mode = static_cast<uint8_t>(kPlaces[static_cast<int>(space)]);
  if (operand.name.empty()) {
    instruction.in[0] = module_.Constant(0);
    return;
  }
  const std::optional<Name> found = Find(operand.name);
  if (!found) Fail("unknown name " + operand.name);
  const Name name = *found;
  if (name.kind == Name::kRegister) {
    if (Bits(name.type) < 32 || name.type == Type::kB128) Fail("not an address: " + operand.name);
    instruction.in[0] = name.slot;
    instruction.narrow = Bits(name.type) == 32;
    return;
  }
  static constexpr Space kOwn[] = {Space::kNone,  Space::kGlobal,    Space::kShared, Space::kShared,
                                   Space::kLocal, Space::kParameter, Space::kNone};
  const bool frame = name.kind == Name::kFrame && (space == Space::kLocal || space == Space::kParameter);
  const bool constant = name.kind == Name::kGlobal && space == Space::kConstant;
  const bool generic = name.kind == Name::kGlobal && space == Space::kNone;
  if (!frame && !constant && !generic && kOwn[name.kind] != space) Fail(operand.name + " lies in another state space");
  if (name.kind == Name::kFrame) {
    instruction.mode = static_cast<uint8_t>(Place::kLocal);
    instruction.offset += static_cast<int64_t>(name.offset);
  } else if (name.kind == Name::kKernelParameter) {
    instruction.in[0] = module_.Constant(name.offset);
  } else if (name.kind == Name::kGlobal) {
    instruction.in[0] = GlobalAddress(name.variable, 0);
  } else if (name.kind == Name::kShared) {
    instruction.in[0] = SharedAddress(name.variable, 0);
  } else {
    const Slot base = NewRegister();
    AddressOf(name, 0, base);
    instruction.in[0] = base;
  }
}

}  // namespace callout::software_gpu::ptx
