// SPDX-License-Identifier: Apache-2.0
#include "host/programs/text_contents.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "core/attributes/jax_calls.h"
#include "core/base/cat.h"
#include "host/programs/mlir_text.h"
#include "host/programs/written_call.h"

namespace callout::internal {
namespace {

using Kind = MlirToken::Kind;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Returns the content of a string token, with MLIR's escapes (\22) resolved; other tokens unchanged.
std::string Unquoted(std::string_view token) {
  if (!token.starts_with('"')) return std::string(token);
  token = token.substr(1, token.size() - 2);
  std::string text;
  for (size_t i = 0; i < token.size(); ++i) {
    if (token[i] != '\\' || i + 1 == token.size()) {
      text += token[i];
    } else if (i + 2 < token.size() && HexDigit(token[i + 1]) >= 0 && HexDigit(token[i + 2]) >= 0) {
      text += static_cast<char>(HexDigit(token[i + 1]) * 16 + HexDigit(token[i + 2]));
      i += 2;
    } else {
      const char escaped = token[++i];
      text += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
    }
  }
  return text;
}

// Walks the tokens once, so that its time is linear in the text.
class TextWalk {
 public:
  explicit TextWalk(const MlirText& text) : text_(text) {}

  Result<pjrt::ProgramContents> Run() {
    while (at_ < text_.size()) {
      const std::string_view token = text_[at_++];
      if (token == "func.func") {
        CALLOUT_RETURN_IF_ERROR(TakeFunction());
      } else if (token == "\"func.func\"" && Now() == "(") {
        CALLOUT_RETURN_IF_ERROR(TakeGenericFunction());
      } else if (token == "stablehlo.custom_call" && Now() == "@") {
        CALLOUT_RETURN_IF_ERROR(TakeCall());
      } else if (token == "\"stablehlo.custom_call\"" && Now() == "(") {
        CALLOUT_RETURN_IF_ERROR(TakeCall());
      }
    }
    if (!has_main_) return Unimplemented("callout: the program's text has no function 'main'");
    return std::move(contents_);
  }

 private:
  // Token numbers of the values of the dictionary entries that TextWalk needs; 0 for a missing entry.
  struct Dictionary {
    size_t target = 0, config = 0, moved_config = 0, shape_operands = 0;  // of a call
    size_t callback = 0, index = 0, library = 0;                          // of a call's own dictionary
    size_t name = 0, type = 0;                                            // of a function
  };

  std::string_view Now() const { return text_[at_]; }
  bool Skip(std::string_view token) {
    if (Now() != token) return false;
    ++at_;
    return true;
  }
  Status Unreadable(std::string_view what) const {
    return InvalidArgument(Cat("callout: the program's text cannot be read: expected ", what, " in line ",
                               text_.Line(std::min(at_, text_.size() - 1))));
  }

  Status TakeFunction() {
    if (Now() == "public" || Now() == "private" || Now() == "nested") ++at_;
    if (!Skip("@") || Unquoted(Now()) != "main") return OkStatus();
    ++at_;
    return TakeMain(/*is_named=*/true);
  }

  Status TakeGenericFunction() {
    Dictionary of;
    if (!Skip("(") || !Skip(")") || !Skip("<") || Now() != "{") return Unreadable("a function");
    ReadDictionary(of);
    if (of.name == 0 || of.type == 0 || Unquoted(text_[of.name]) != "main") return OkStatus();
    const size_t behind = std::exchange(at_, of.type);
    CALLOUT_RETURN_IF_ERROR(TakeMain(/*is_named=*/false));
    at_ = behind;
    return OkStatus();
  }

  Status TakeMain(bool is_named) {
    if (has_main_) return Unreadable("one function 'main'");
    has_main_ = true;
    CALLOUT_RETURN_IF_ERROR(ReadTypes(contents_.inputs, is_named));
    return Skip("->") ? ReadTypes(contents_.outputs, false) : OkStatus();
  }

  // Reads a call behind its name: @target(%0, %1) {...} : types, or (%0, %1) <{...}> {...} : types.
  Status TakeCall() {
    Dictionary of;
    if (Skip("@")) of.target = at_++;
    if (!Skip("(")) return Unreadable("the operands of a call");
    while (text_.Is(at_, Kind::kValue) || Now() == ",") ++at_;
    if (!Skip(")")) return Unreadable("the operands of a call");
    if (Skip("<")) {
      if (Now() != "{") return Unreadable("the properties of a call");
      ReadDictionary(of);
      if (!Skip(">")) return Unreadable("the properties of a call");
    }
    if (Now() == "{") ReadDictionary(of);
    WrittenCall call;
    if (!Skip(":")) return Unreadable("the type of a call");
    CALLOUT_RETURN_IF_ERROR(ReadTypes(call.operands, false));
    if (!Skip("->")) return Unreadable("the results of a call");
    CALLOUT_RETURN_IF_ERROR(ReadTypes(call.results, false));
    if (of.target == 0) return Unreadable("the target of a call");
    call.target = Unquoted(text_[of.target]);
    call.has_shape_operands = of.shape_operands != 0;
    const size_t behind = at_;
    // JAX writes both; the older attribute, which is text, is then empty.
    at_ = of.moved_config != 0 ? of.moved_config : of.config;
    if (at_ != 0 && Now() == "{") {
      Dictionary own;
      ReadDictionary(own);
      if (own.callback != 0) call.callback = Unquoted(text_[own.callback]);
      if (own.index != 0) call.jax_index = NumberAt(own.index);
      call.is_embedded = own.library != 0;
    }
    at_ = behind;
    AddCall(std::move(call), contents_);
    return OkStatus();
  }

  std::optional<int64_t> NumberAt(size_t i) const {
    const std::string_view word = text_[i];
    int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    return error == std::errc() && end == word.data() + word.size() ? std::optional(number) : std::nullopt;
  }

  // Reads a dictionary from its opening brace to behind its end. Skips other entries.
  void ReadDictionary(Dictionary& of) {
    const size_t end = text_.Behind(at_);
    ++at_;
    while (at_ + 1 < end) {
      const std::string_view key = Now();
      if (text_[++at_] == "=") {
        if (size_t* const found = Find(of, key)) *found = at_ + 1;
      }
      while (at_ + 1 < end && Now() != ",") {
        const std::string_view token = Now();
        const bool opens = token == "(" || token == "[" || token == "{" || token == "<";
        at_ = opens ? text_.Behind(at_) : at_ + 1;
      }
      ++at_;
    }
    at_ = end;
  }

  static size_t* Find(Dictionary& of, std::string_view key) {
    if (key.starts_with('"')) key = key.substr(1, key.size() - 2);
    if (key == "call_target_name") return &of.target;
    if (key == "backend_config") return &of.config;
    if (key == "mhlo.backend_config") return &of.moved_config;
    if (key == kShapeOperandsAttribute) return &of.shape_operands;
    if (key == kCallbackAttribute) return &of.callback;
    if (key == kJaxIndexAttribute) return &of.index;
    if (key == kLibraryAttribute) return &of.library;
    if (key == "sym_name") return &of.name;
    return key == "function_type" ? &of.type : nullptr;
  }

  // Reads one type, or a list of types in brackets, each with its attributes and location, and in a function's
  // arguments also with a name.
  Status ReadTypes(std::vector<pjrt::ArrayType>& types, bool is_named) {
    if (!Skip("(")) return ReadType(types);
    while (!Skip(")")) {
      if (is_named) {
        if (!text_.Is(at_, Kind::kValue) || text_[at_ + 1] != ":") return Unreadable("an argument");
        at_ += 2;
      }
      CALLOUT_RETURN_IF_ERROR(ReadType(types));
      if (Now() == "{") at_ = text_.Behind(at_);
      if (Skip("loc")) at_ = text_.Behind(at_);
      if (!Skip(",") && Now() != ")") return Unreadable("')'");
    }
    return OkStatus();
  }

  Status ReadType(std::vector<pjrt::ArrayType>& types) {
    if (Now() == "!" && text_[at_ + 1] == "stablehlo.token") {
      types.push_back({DType::kToken, {}});
      at_ += 2;
      return OkStatus();
    }
    const size_t begin = at_;
    if (Now() == "!" || Now() == "tuple" || Now() == "memref" || Now() == "index") return NoArray();
    if (Now() != "tensor" || text_[at_ + 1] != "<") return Unreadable("a type");
    at_ = text_.Behind(at_ + 1);
    auto type = FromMlirType(text_.Slice(begin, at_));
    if (!type) return NoArray();
    types.push_back(*std::move(type));
    return OkStatus();
  }

  static Status NoArray() { return Unimplemented("callout: the program has values that are no arrays"); }

  const MlirText& text_;
  size_t at_ = 0;
  bool has_main_ = false;
  pjrt::ProgramContents contents_;
};

}  // namespace

Result<pjrt::ProgramContents> ReadTextContents(std::string_view code) {
  CALLOUT_ASSIGN_OR_RETURN(const MlirText text, MlirText::Scan(code));
  if (text.size() == 0) return InvalidArgument("callout: the program's text is empty");
  return TextWalk(text).Run();
}

}  // namespace callout::internal
