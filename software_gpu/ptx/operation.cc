// SPDX-License-Identifier: Apache-2.0
#include "ptx/operation.h"

#include "ptx/functions.h"
#include "ptx/spelling.h"

namespace callout::software_gpu::ptx {

Type TypeOfInput(const Operation& operation, int index) {
  switch (operation.opcode) {
    case Opcode::kMad:
      return index == 2 ? operation.to : operation.from;
    case Opcode::kShl:
    case Opcode::kShr:
      return index == 1 ? Type::kU32 : operation.from;
    case Opcode::kBfe:
      return index > 0 ? Type::kU32 : operation.from;
    case Opcode::kBfi:
      return index > 1 ? Type::kU32 : operation.from;
    case Opcode::kDp2a:
    case Opcode::kDp4a:
      return Type::kB32;
    case Opcode::kSlct:
      return index < 2 ? operation.to : operation.from;
    case Opcode::kSelp:
    case Opcode::kSet:
    case Opcode::kSetp:
      return index == 2 ? Type::kPred : operation.from;
    default:
      return operation.from;
  }
}

Operation FindOperation(std::string_view spelling, std::string* why, int inputs) {
  Spelling words;
  std::string unknown;
  std::string reason;
  if (!ReadSpelling(spelling, words, unknown)) {
    reason = "'" + unknown + "' is unknown, or stands twice";
  } else {
    for (const auto find :
         {&FindCarry, &FindInteger, &FindBits, &FindApproximation, &FindComparison, &FindConversion}) {
      if (Operation operation = find(words); operation.value) return operation;
    }
    if (Operation operation = FindFloat(words, inputs); operation.value) return operation;
    reason = "there is no such form of '" + std::string(spelling.substr(0, spelling.find('.'))) + "'";
  }
  if (why != nullptr) *why = reason;
  return {};
}

}  // namespace callout::software_gpu::ptx
