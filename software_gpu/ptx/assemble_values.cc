// SPDX-License-Identifier: Apache-2.0
//
// Assembles arithmetic, which operation.h finds by its spelling, and mov, cvta and isspacep (PTX ISA 9.7.9).
#include "ptx/assembler.h"

namespace callout::software_gpu::ptx {
namespace {

uint64_t Window(Space space) {
  switch (space) {
    case Space::kShared:
      return kSharedWindow;
    case Space::kLocal:
      return kLocalWindow;
    case Space::kParameter:
      return kParameterWindow;
    default:
      return 0;  // generic addresses of global memory are its addresses (PTX ISA 9.7.9.1)
  }
}

}  // namespace

void RoutineAssembler::Arithmetic() {
  std::string why;
  Instruction instruction;
  instruction.operation = FindOperation(statement_->spelling, &why, static_cast<int>(statement_->operands.size()) - 1);
  const Operation& operation = instruction.operation;
  if (operation.opcode == Opcode::kNone) Fail(why.empty() ? "unknown instruction" : why);
  ExpectOperands(1 + static_cast<size_t>(operation.inputs));
  const bool carry = operation.how.carry_out || operation.carry_in;
  if (carry && carry_ == kNoSlot) carry_ = NewRegister();
  const Operand* to = &In(0);
  if (to->kind == Operand::kPair) {
    if (!operation.second || operation.how.carry_out) Fail("it has one result");
    instruction.second = Target(to->parts[1], 1);
    to = &to->parts[0];
  }
  if (operation.how.carry_out) instruction.second = carry_;
  instruction.to = Target(*to, Bits(operation.to));
  const int register_bits = RegisterBits(*to);
  if (IsSigned(operation.to) && register_bits > Bits(operation.to)) {
    instruction.extend = static_cast<uint8_t>(Bits(operation.to));
    instruction.register_bits = static_cast<uint8_t>(register_bits);
  }
  for (int i = 0; i < operation.inputs; ++i) {
    instruction.in[i] = Source(In(1 + static_cast<size_t>(i)), TypeOfInput(operation, i));
  }
  if (operation.carry_in) instruction.in[operation.inputs] = carry_;
  const bool wide = instruction.second != kNoSlot || instruction.extend != 0;
  Emit(wide ? RunWideOperation : RunOperation, instruction);
}

void RoutineAssembler::Move() {
  const Type type = TakeType();
  ExpectNoWords();
  ExpectOperands(2);
  if (In(0).kind == Operand::kVector) return MoveVector(In(0), In(1), type, true);
  if (In(1).kind == Operand::kVector) return MoveVector(In(1), In(0), type, false);
  Instruction instruction;
  instruction.to = Target(In(0), Bits(type));
  instruction.register_bits = static_cast<uint8_t>(Bits(type));
  instruction.in[0] = Source(In(1), type);
  const int from = RegisterBits(In(1));
  if (from != 0 && from != Bits(type)) Fail("register " + In(1).name + " has another size than the type");
  Emit(RunMove, instruction);
}

/// Assembles mov.b64 {a, b}, c, where a gets the low bits, and the reverse.
void RoutineAssembler::MoveVector(const Operand& vector, const Operand& scalar, Type type, bool unpack) {
  const size_t count = vector.parts.size();
  const int bits = Bits(type) / static_cast<int>(std::max<size_t>(count, 1));
  if ((count != 2 && count != 4) || bits < 8) Fail("a vector of " + std::to_string(count) + " parts");
  Instruction instruction;
  instruction.bytes = static_cast<uint8_t>(bits / 8);
  instruction.count = static_cast<uint8_t>(count);
  const Type part = bits == 8 ? Type::kB8 : bits == 16 ? Type::kB16 : Type::kB32;
  std::vector<Slot> slots;
  for (const Operand& operand : vector.parts) {
    slots.push_back(unpack ? Target(operand, bits) : Source(operand, part));
  }
  instruction.target = List(slots);
  if (unpack) {
    instruction.in[0] = Source(scalar, type);
  } else {
    instruction.to = Target(scalar, Bits(type));
  }
  Emit(unpack ? RunUnpack : RunPack, instruction);
}

void RoutineAssembler::ConvertAddress() {
  const bool to_space = Take("to");
  const Space space = TakeSpace();
  if (space == Space::kNone) Fail("it names no state space");
  if (!Take("u64")) Fail("addresses that have not 64 bits");
  ExpectNoWords();
  ExpectOperands(2);
  Instruction instruction;
  instruction.to = Target(In(0), 64);
  instruction.in[0] = Source(In(1), Type::kU64);
  const int64_t window = static_cast<int64_t>(Window(space));
  instruction.offset = to_space ? -window : window;
  Emit(RunConvertAddress, instruction);
}

void RoutineAssembler::IsSpace() {
  const Space space = TakeSpace();
  ExpectNoWords();
  ExpectOperands(2);
  if (space == Space::kNone || space == Space::kConstant) Fail("a state space that is not known");
  Instruction instruction;
  instruction.to = Target(In(0), 1);
  instruction.in[0] = Source(In(1), Type::kU64);
  instruction.offset = static_cast<int64_t>(Window(space));
  Emit(RunIsSpace, instruction);
}

}  // namespace callout::software_gpu::ptx
