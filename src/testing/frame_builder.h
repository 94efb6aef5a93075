// SPDX-License-Identifier: Apache-2.0
//
// Builds an XLA_FFI_CallFrame as XLA does: attributes sorted by name, one buffer struct for each operand and result.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/frame/ffi_abi.h"
#include "testing/test_buffer.h"

namespace callout::internal {

class FrameBuilder {
 public:
  FrameBuilder& Arg(TestBuffer buffer);
  /// Adds a result, filled with 0xcd until a handler fills it.
  FrameBuilder& Ret(DType dtype, std::vector<int64_t> dims);
  FrameBuilder& Ret(TestBuffer buffer);
  FrameBuilder& TokenArg() { return Arg(TestBuffer(DType::kToken, {}, {})); }
  FrameBuilder& TokenRet() { return Ret(DType::kToken, {}); }

  FrameBuilder& StringAttr(const std::string& name, std::string value);
  FrameBuilder& Int64Attr(const std::string& name, int64_t value);
  FrameBuilder& Int32Attr(const std::string& name, int32_t value);
  FrameBuilder& Int64ArrayAttr(const std::string& name, std::vector<int64_t> values);
  /// Adds a dictionary of strings, which may hold any bytes.
  FrameBuilder& DictionaryAttr(const std::string& name, std::map<std::string, std::string> strings);
  /// Adds any value, in XLA's layout of `type`. Borrowed: `value` must outlive the builder.
  FrameBuilder& Attr(const std::string& name, XLA_FFI_AttrType type, void* value);

  /// Returns the frame of a call in `stage`. In instantiation, it has neither operands nor results. Borrowed: valid
  /// until the builder changes or builds another frame.
  XLA_FFI_CallFrame* Build(const XLA_FFI_Api* api, XLA_FFI_ExecutionContext* ctx, XLA_FFI_ExecutionStage stage);

  TestBuffer& arg(size_t index) { return args_.at(index); }
  TestBuffer& ret(size_t index) { return rets_.at(index); }

 private:
  struct Attribute {
    XLA_FFI_AttrType type;
    std::string text;
    std::vector<int64_t> numbers;
    int32_t number32 = 0;
    std::map<std::string, std::string> strings;
    XLA_FFI_ByteSpan name_span;
    XLA_FFI_ByteSpan string_span;
    XLA_FFI_Scalar scalar;
    XLA_FFI_Array array;
    XLA_FFI_Attrs dictionary;
    std::vector<XLA_FFI_ByteSpan> key_spans, member_spans;
    std::vector<XLA_FFI_AttrType> member_types;
    std::vector<XLA_FFI_ByteSpan*> keys;
    std::vector<void*> members;
    void* given = nullptr;  // Set by Attr.
    void* value = nullptr;
  };

  void BuildBuffers(std::deque<TestBuffer>& from, std::vector<XLA_FFI_Buffer>& structs, std::vector<void*>& pointers);
  static void BuildDictionary(Attribute& attribute);
  void BuildAttributes();

  std::deque<TestBuffer> args_;
  std::deque<TestBuffer> rets_;
  std::map<std::string, Attribute> attributes_;  // Sorted by name, as in XLA.

  std::vector<XLA_FFI_Buffer> arg_structs_, ret_structs_;
  std::vector<void*> arg_pointers_, ret_pointers_;
  std::vector<XLA_FFI_ArgType> arg_types_;
  std::vector<XLA_FFI_RetType> ret_types_;
  std::vector<XLA_FFI_AttrType> attribute_types_;
  std::vector<XLA_FFI_ByteSpan*> attribute_names_;
  std::vector<void*> attribute_values_;
  XLA_FFI_CallFrame frame_{};
};

}  // namespace callout::internal
