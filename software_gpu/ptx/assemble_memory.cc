// SPDX-License-Identifier: Apache-2.0
//
// Assembles ld, st, atom, red, fences, cp.async and cache hints (PTX ISA 9.7.9 and 9.7.13).
#include "ptx/assembler.h"

namespace callout::software_gpu::ptx {
namespace {

int VectorOf(std::string_view word) {
  if (word == "v2") return 2;
  if (word == "v4") return 4;
  return word == "v8" ? 8 : 1;
}

/// Returns the element of a vector of one: Triton's inline assembly writes a single element in braces, too.
const Operand& Only(const Operand& operand) {
  return operand.kind == Operand::kVector && operand.parts.size() == 1 ? operand.parts[0] : operand;
}

}  // namespace

void RoutineAssembler::Load() {
  const bool strong = TakeOne({"mmio", "volatile", "relaxed", "acquire", "cv"}) != "";
  Take("weak");
  Take("relaxed");  // .mmio.relaxed
  TakeOne({"cta", "cluster", "gpu", "sys"});
  const Space space = TakeSpace();
  TakeCacheHints();
  const int count = VectorOf(TakeOne({"v2", "v4", "v8"}));
  const Type type = TakeType();
  ExpectNoWords();
  ExpectOperands(2, 3);  // the last operand is a cache policy
  Instruction instruction;
  instruction.bytes = static_cast<uint8_t>(Bits(type) / 8);
  instruction.count = static_cast<uint8_t>(count);
  if (instruction.bytes * count > 32 || instruction.bytes == 0) Fail("a vector of more than 32 bytes");
  const auto target = [&](const Operand& operand) {
    const Slot slot = Target(operand, Bits(type));
    if (IsSigned(type) && RegisterBits(operand) > Bits(type)) {
      instruction.extend = static_cast<uint8_t>(Bits(type));
      instruction.register_bits = static_cast<uint8_t>(RegisterBits(operand));
    }
    return slot;
  };
  if (count == 1) {
    instruction.to = target(Only(In(0)));
  } else {
    if (In(0).kind != Operand::kVector || In(0).parts.size() != static_cast<size_t>(count)) Fail("no such vector");
    std::vector<Slot> slots;
    for (const Operand& operand : In(0).parts) slots.push_back(target(operand));
    instruction.target = List(slots);
  }
  Address(instruction, In(1), space);
  Emit(LoadHandler(instruction.bytes, strong), instruction);
}

void RoutineAssembler::Store() {
  const bool strong = TakeOne({"mmio", "volatile", "relaxed", "release"}) != "";
  Take("weak");
  Take("relaxed");  // .mmio.relaxed
  TakeOne({"cta", "cluster", "gpu", "sys"});
  const Space space = TakeSpace();
  if (space == Space::kConstant) Fail("constants are not written");
  TakeCacheHints();
  const int count = VectorOf(TakeOne({"v2", "v4", "v8"}));
  const Type type = TakeType();
  ExpectNoWords();
  ExpectOperands(2, 3);
  Instruction instruction;
  instruction.bytes = static_cast<uint8_t>(Bits(type) / 8);
  instruction.count = static_cast<uint8_t>(count);
  if (instruction.bytes * count > 32 || instruction.bytes == 0) Fail("a vector of more than 32 bytes");
  if (count == 1) {
    instruction.in[1] = Source(Only(In(1)), type);
  } else {
    if (In(1).kind != Operand::kVector || In(1).parts.size() != static_cast<size_t>(count)) Fail("no such vector");
    std::vector<Slot> slots;
    for (const Operand& operand : In(1).parts) slots.push_back(Source(operand, type));
    instruction.target = List(slots);
  }
  Address(instruction, In(0), space);
  Emit(StoreHandler(instruction.bytes, strong), instruction);
}

void RoutineAssembler::Atomic() { AtomicCommon(true); }

void RoutineAssembler::Reduction() { AtomicCommon(false); }

/// Assembles atom d, [a], b{, c} and red [a], b. Memory orders are ignored: every operation has a stronger one.
void RoutineAssembler::AtomicCommon(bool returns) {
  if (!words_.empty() && words_.front() == "async") Fail("unknown instruction");
  TakeOne({"relaxed", "acquire", "release", "acq_rel"});
  TakeOne({"cta", "cluster", "gpu", "sys"});
  const Space space = TakeSpace();
  if (space != Space::kNone && space != Space::kGlobal && space != Space::kShared) Fail("of this state space");
  TakeCacheHints();
  const int count = VectorOf(TakeOne({"v2", "v4", "v8"}));
  const Type type = TakeType();
  Instruction instruction;
  instruction.bytes = static_cast<uint8_t>(Bits(type) / 8);
  instruction.count = static_cast<uint8_t>(count);
  const size_t first = returns ? 1 : 0;
  AtomicOperation(instruction, type, count);
  if (!returns && instruction.kind != 0 && instruction.kind < 3) Fail("red has no such operation");
  const bool swap = instruction.kind == static_cast<uint8_t>(AtomicKind::kCompareAndSwap);
  ExpectOperands(first + (swap ? 3 : 2), first + (swap ? 4 : 3));
  if (count == 1) {
    if (returns && In(0).name != "_") instruction.to = Target(In(0), Bits(type));
    instruction.in[1] = Source(In(first + 1), type);
    if (swap) instruction.in[2] = Source(In(first + 2), type);
  } else {
    std::vector<Slot> slots(static_cast<size_t>(count), kNoSlot);
    for (size_t i = 0; returns && i < In(0).parts.size() && i < slots.size(); ++i) {
      slots[i] = Target(In(0).parts[i], Bits(type));
    }
    if ((returns && In(0).parts.size() != slots.size()) || In(first + 1).parts.size() != slots.size()) {
      Fail("no such vector");
    }
    for (const Operand& operand : In(first + 1).parts) slots.push_back(Source(operand, type));
    instruction.target = List(slots);
  }
  Address(instruction, In(first), space);
  Emit(AtomicHandler(instruction.bytes), instruction);
}

void RoutineAssembler::AtomicOperation(Instruction& instruction, Type type, int vector) {
  const bool no_flush = Take("noftz");
  const std::string operation(TakeOne({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"}));
  ExpectNoWords();
  const int bits = Bits(type);
  const bool float_type = IsFloat(type) || IsPacked(type);
  const auto set = [&](AtomicKind kind, bool allowed) {
    if (!allowed || vector != 1) Fail("this operation has no such type");
    instruction.kind = static_cast<uint8_t>(kind);
  };
  if (operation == "exch") return set(AtomicKind::kExchange, bits >= 32 && !IsPacked(type));
  if (operation == "cas") return set(AtomicKind::kCompareAndSwap, bits >= 16 && !float_type);
  if (operation == "inc") return set(AtomicKind::kIncrement, type == Type::kU32);
  if (operation == "dec") return set(AtomicKind::kDecrement, type == Type::kU32);
  const bool bitwise = operation == "and" || operation == "or" || operation == "xor";
  if (operation.empty() || bits < 16 || (bits == 16 && !float_type) || bitwise != IsUntyped(type)) {
    Fail("this operation has no such type");
  }
  if (vector != 1 && !float_type) Fail("a vector of integers");
  if (float_type && bits <= 32 && type != Type::kF32 && !no_flush) Fail("without .noftz");
  if (type == Type::kF64 && operation != "add") Fail("this operation has no such type");
  static constexpr std::pair<Type, const char*> kNames[] = {
      {Type::kB32, "b32"},     {Type::kB64, "b64"},       {Type::kU32, "u32"}, {Type::kU64, "u64"},
      {Type::kS32, "s32"},     {Type::kS64, "s64"},       {Type::kF16, "f16"}, {Type::kBf16, "bf16"},
      {Type::kF16x2, "f16x2"}, {Type::kBf16x2, "bf16x2"}, {Type::kF32, "f32"}, {Type::kF64, "f64"},
  };
  std::string spelling = operation;
  if (operation == "add" && float_type) spelling += ".rn";
  if (type == Type::kF32 && operation == "add") {
    // atom.add.f32 flushes subnormals in global memory, and does not in shared memory (PTX ISA 9.7.13.5).
    if (statement_->spelling.find(".shared") == std::string::npos) spelling += ".ftz";
  }
  for (const auto& [known, name] : kNames) {
    if (known == type) instruction.operation = FindOperation(spelling + "." + name);
  }
  if (!instruction.operation.value) Fail("this operation has no such type");
}

/// Assembles a fence. All orders and scopes are one full fence.
void RoutineAssembler::Fence() {
  TakeOne({"sc", "acq_rel", "acquire", "release"});
  if (TakeOne({"cta", "cluster", "gpu", "sys", "gl"}) == "") {
    // fence.proxy is a plain fence: memory has only one path here.
    if (TakeOne({"proxy"}) == "" || TakeOne({"alias", "async", "async::global", "async::generic"}) == "") {
      Fail("it has no scope that is known");
    }
    TakeSpace();
  }
  ExpectNoWords();
  ExpectOperands(0);
  Emit(RunFence, {});
}

/// Ignores prefetch, prefetchu and applypriority: there are no caches.
void RoutineAssembler::Hint() {
  TakeSpace();
  TakeOne({"L1", "L2"});
  TakePrefix("L2::evict_");
  ExpectNoWords();
  ExpectOperands(1, 2);
  if (In(0).kind != Operand::kAddress) Fail("expected an address in []");
  Emit(RunNothing, {});
}

/// Assembles createpolicy. The policy is a number that nothing reads.
void RoutineAssembler::CreatePolicy() {
  if (!Take("fractional")) Fail("only .fractional is known");
  while (TakePrefix("L2::")) {
  }
  Take("b64");
  ExpectNoWords();
  ExpectOperands(1, 2);
  Instruction instruction;
  instruction.to = Target(In(0), 64);
  instruction.in[0] = module_.Constant(0);
  Emit(RunMove, instruction);
}

/// Assembles cp.async as a copy that is done at once, so there is nothing to wait for.
void RoutineAssembler::CopyAsync() {
  if (!Take("async")) Fail("unknown instruction");
  if (TakeOne({"commit_group", "wait_group", "wait_all"}) != "") {
    ExpectNoWords();
    ExpectOperands(0, 1);
    return Emit(RunNothing, {});
  }
  if (TakeOne({"ca", "cg"}) == "") Fail("unknown instruction");
  if (!Take("global") || TakeSpace() != Space::kShared) Fail("only from global to shared memory");
  TakeCacheHints();
  ExpectNoWords();
  ExpectOperands(3, 5);
  if (In(2).kind != Operand::kInteger || (In(2).value != 4 && In(2).value != 8 && In(2).value != 16)) {
    Fail("it copies 4, 8 or 16 bytes");
  }
  Instruction instruction, from;
  Address(from, In(1), Space::kGlobal);
  if (statement_->operands.size() > 3) instruction.in[2] = Source(In(3), Type::kU32);
  Address(instruction, In(0), Space::kShared);
  if (instruction.in[0] == kNoSlot || from.in[0] == kNoSlot) Fail("an address of another state space");
  instruction.in[1] = from.in[0];
  instruction.second_offset = from.offset;
  instruction.bytes = static_cast<uint8_t>(In(2).value);
  Emit(RunCopyAsync, instruction);
}

}  // namespace callout::software_gpu::ptx
