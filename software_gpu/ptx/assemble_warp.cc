// SPDX-License-Identifier: Apache-2.0
//
// Assembles operations of several lanes of a warp (PTX ISA 9.7.8 and 9.7.13). Only the forms with a member mask are
// known: the others do not exist since sm_70.
#include "ptx/assembler.h"

namespace callout::software_gpu::ptx {
namespace {

Instruction Together(Collective kind) {
  Instruction instruction;
  instruction.kind = static_cast<uint8_t>(kind);
  return instruction;
}

}  // namespace

void RoutineAssembler::Shuffle() {
  if (!Take("sync")) Fail("only .sync is known");
  const std::string_view mode = TakeOne({"up", "down", "bfly", "idx"});
  if (mode.empty() || !Take("b32")) Fail("it has no mode or type that is known");
  ExpectNoWords();
  ExpectOperands(5);
  Instruction instruction = Together(Collective::kShuffle);
  instruction.mode = static_cast<uint8_t>(mode == "up"     ? ptx::Shuffle::kUp
                                          : mode == "down" ? ptx::Shuffle::kDown
                                          : mode == "bfly" ? ptx::Shuffle::kButterfly
                                                           : ptx::Shuffle::kIndex);
  const Operand& to = In(0);
  instruction.to = Target(to.kind == Operand::kPair ? to.parts[0] : to, 32);
  if (to.kind == Operand::kPair) instruction.second = Target(to.parts[1], 1);
  instruction.in[0] = Source(In(1), Type::kB32);
  for (size_t i = 1; i < 4; ++i) instruction.in[i] = Source(In(i + 1), Type::kU32);
  Emit(RunCollective, instruction);
}

void RoutineAssembler::Vote() {
  if (!Take("sync")) Fail("only .sync is known");
  const std::string_view mode = TakeOne({"all", "any", "uni", "ballot"});
  const Collective kind = mode == "all"   ? Collective::kVoteAll
                          : mode == "any" ? Collective::kVoteAny
                          : mode == "uni" ? Collective::kVoteUniform
                                          : Collective::kBallot;
  const bool ballot = mode == "ballot";
  if (mode.empty() || !Take(ballot ? "b32" : "pred")) Fail("it has no mode or type that is known");
  ExpectNoWords();
  ExpectOperands(3);
  Instruction instruction = Together(kind);
  instruction.to = Target(In(0), ballot ? 32 : 1);
  instruction.in[0] = Source(In(1), Type::kPred);
  instruction.in[1] = Source(In(2), Type::kU32);
  Emit(RunCollective, instruction);
}

void RoutineAssembler::Match() {
  const bool all = TakeOne({"any", "all"}) == "all";
  if (!Take("sync")) Fail("only .sync is known");
  const Type type = TakeType();
  ExpectNoWords();
  ExpectOperands(3);
  if (type != Type::kB32 && type != Type::kB64) Fail("it has another type");
  Instruction instruction = Together(all ? Collective::kMatchAll : Collective::kMatchAny);
  instruction.bytes = static_cast<uint8_t>(Bits(type) / 8);
  const Operand& to = In(0);
  if (to.kind == Operand::kPair && !all) Fail("it has one result");
  instruction.to = Target(to.kind == Operand::kPair ? to.parts[0] : to, 32);
  if (to.kind == Operand::kPair) instruction.second = Target(to.parts[1], 1);
  instruction.in[0] = Source(In(1), type);
  instruction.in[1] = Source(In(2), Type::kU32);
  Emit(RunCollective, instruction);
}

void RoutineAssembler::Reduce() {
  if (!Take("sync")) Fail("only .sync is known");
  const std::string operation(TakeOne({"add", "min", "max", "and", "or", "xor"}));
  const std::string type(TakeOne({"u32", "s32", "b32"}));
  ExpectNoWords();
  ExpectOperands(3);
  Instruction instruction = Together(Collective::kReduce);
  instruction.operation = FindOperation(operation + "." + type);
  if (!instruction.operation.value) Fail("it has no operation or type that is known");
  instruction.to = Target(In(0), 32);
  instruction.in[0] = Source(In(1), Type::kB32);
  instruction.in[1] = Source(In(2), Type::kU32);
  Emit(RunCollective, instruction);
}

void RoutineAssembler::Elect() {
  if (!Take("sync")) Fail("only .sync is known");
  ExpectNoWords();
  ExpectOperands(2);
  if (In(0).kind != Operand::kPair) Fail("it has two results");
  Instruction instruction = Together(Collective::kElect);
  instruction.to = Target(In(0).parts[0], 32);
  instruction.second = Target(In(0).parts[1], 1);
  instruction.in[0] = Source(In(1), Type::kU32);
  Emit(RunCollective, instruction);
}

void RoutineAssembler::WarpBarrier() {
  if (!Take("sync")) Fail("unknown instruction");
  ExpectNoWords();
  ExpectOperands(1);
  Instruction instruction = Together(Collective::kWarpBarrier);
  instruction.in[0] = Source(In(0), Type::kU32);
  Emit(RunCollective, instruction);
}

void RoutineAssembler::ActiveMask() {
  if (!Take("b32")) Fail("it has another type");
  ExpectNoWords();
  ExpectOperands(1);
  Instruction instruction;
  instruction.to = Target(In(0), 32);
  Emit(RunActiveMask, instruction);
}

}  // namespace callout::software_gpu::ptx
