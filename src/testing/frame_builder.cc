// SPDX-License-Identifier: Apache-2.0
#include "testing/frame_builder.h"

#include <algorithm>

namespace callout::internal {

FrameBuilder& FrameBuilder::Arg(TestBuffer buffer) {
  args_.push_back(std::move(buffer));
  return *this;
}

FrameBuilder& FrameBuilder::Ret(DType dtype, std::vector<int64_t> dims) {
  rets_.push_back(TestBuffer::Zeros(dtype, std::move(dims)));
  std::fill(rets_.back().bytes().begin(), rets_.back().bytes().end(), uint8_t{0xcd});
  return *this;
}

FrameBuilder& FrameBuilder::Ret(TestBuffer buffer) {
  rets_.push_back(std::move(buffer));
  return *this;
}

FrameBuilder& FrameBuilder::StringAttr(const std::string& name, std::string value) {
  Attribute& attribute = attributes_[name];
  attribute.type = XLA_FFI_AttrType_STRING;
  attribute.text = std::move(value);
  return *this;
}

FrameBuilder& FrameBuilder::Int64Attr(const std::string& name, int64_t value) {
  Attribute& attribute = attributes_[name];
  attribute.type = XLA_FFI_AttrType_SCALAR;
  attribute.numbers = {value};
  return *this;
}

FrameBuilder& FrameBuilder::Int32Attr(const std::string& name, int32_t value) {
  Attribute& attribute = attributes_[name];
  attribute.type = XLA_FFI_AttrType_SCALAR;
  attribute.numbers.clear();
  attribute.number32 = value;
  return *this;
}

FrameBuilder& FrameBuilder::Int64ArrayAttr(const std::string& name, std::vector<int64_t> values) {
  Attribute& attribute = attributes_[name];
  attribute.type = XLA_FFI_AttrType_ARRAY;
  attribute.numbers = std::move(values);
  return *this;
}

FrameBuilder& FrameBuilder::DictionaryAttr(const std::string& name, std::map<std::string, std::string> strings) {
  Attribute& attribute = attributes_[name];
  attribute.type = XLA_FFI_AttrType_DICTIONARY;
  attribute.strings = std::move(strings);
  return *this;
}

FrameBuilder& FrameBuilder::Attr(const std::string& name, XLA_FFI_AttrType type, void* value) {
  Attribute& attribute = attributes_[name];
  attribute.type = type;
  attribute.given = value;
  return *this;
}

void FrameBuilder::BuildBuffers(std::deque<TestBuffer>& from, std::vector<XLA_FFI_Buffer>& structs,
                                std::vector<void*>& pointers) {
  structs.clear();
  pointers.clear();
  for (TestBuffer& buffer : from) {
    const callout_buffer view = buffer.view();
    structs.push_back({XLA_FFI_Buffer_STRUCT_SIZE, nullptr, static_cast<XLA_FFI_DataType>(view.dtype), view.data,
                       static_cast<int64_t>(view.rank), buffer.dims().data()});
  }
  for (XLA_FFI_Buffer& buffer : structs) pointers.push_back(&buffer);
}

void FrameBuilder::BuildDictionary(Attribute& attribute) {
  attribute.key_spans.clear();
  attribute.member_spans.clear();
  for (const auto& [key, text] : attribute.strings) {
    attribute.key_spans.push_back({key.data(), key.size()});
    attribute.member_spans.push_back({text.data(), text.size()});
  }
  attribute.keys.clear();
  attribute.members.clear();
  for (XLA_FFI_ByteSpan& span : attribute.key_spans) attribute.keys.push_back(&span);
  for (XLA_FFI_ByteSpan& span : attribute.member_spans) attribute.members.push_back(&span);
  attribute.member_types.assign(attribute.members.size(), XLA_FFI_AttrType_STRING);
  attribute.dictionary = {XLA_FFI_Attrs_STRUCT_SIZE,
                          nullptr,
                          static_cast<int64_t>(attribute.members.size()),
                          attribute.member_types.data(),
                          attribute.keys.data(),
                          attribute.members.data()};
}

void FrameBuilder::BuildAttributes() {
  attribute_types_.clear();
  attribute_names_.clear();
  attribute_values_.clear();
  for (auto& [name, attribute] : attributes_) {
    attribute.name_span = {name.data(), name.size()};
    switch (attribute.type) {
      case XLA_FFI_AttrType_STRING:
        attribute.string_span = {attribute.text.data(), attribute.text.size()};
        attribute.value = &attribute.string_span;
        break;
      case XLA_FFI_AttrType_ARRAY:
        attribute.array = {XLA_FFI_DataType_S64, attribute.numbers.size(), attribute.numbers.data()};
        attribute.value = &attribute.array;
        break;
      case XLA_FFI_AttrType_DICTIONARY:
        BuildDictionary(attribute);
        attribute.value = &attribute.dictionary;
        break;
      default:
        attribute.scalar = attribute.numbers.empty() ? XLA_FFI_Scalar{XLA_FFI_DataType_S32, &attribute.number32}
                                                     : XLA_FFI_Scalar{XLA_FFI_DataType_S64, attribute.numbers.data()};
        attribute.value = &attribute.scalar;
    }
    if (attribute.given != nullptr) attribute.value = attribute.given;
    attribute_types_.push_back(attribute.type);
    attribute_names_.push_back(&attribute.name_span);
    attribute_values_.push_back(attribute.value);
  }
}

XLA_FFI_CallFrame* FrameBuilder::Build(const XLA_FFI_Api* api, XLA_FFI_ExecutionContext* ctx,
                                       XLA_FFI_ExecutionStage stage) {
  const bool with_buffers = stage == XLA_FFI_ExecutionStage_INITIALIZE || stage == XLA_FFI_ExecutionStage_EXECUTE;
  std::deque<TestBuffer> none;
  BuildBuffers(with_buffers ? args_ : none, arg_structs_, arg_pointers_);
  BuildBuffers(with_buffers ? rets_ : none, ret_structs_, ret_pointers_);
  BuildAttributes();
  arg_types_.assign(arg_pointers_.size(), XLA_FFI_ArgType_BUFFER);
  ret_types_.assign(ret_pointers_.size(), XLA_FFI_RetType_BUFFER);
  frame_ = {};
  frame_.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame_.api = api;
  frame_.ctx = ctx;
  frame_.stage = stage;
  frame_.args = {XLA_FFI_Args_STRUCT_SIZE, nullptr, static_cast<int64_t>(arg_pointers_.size()), arg_types_.data(),
                 arg_pointers_.data()};
  frame_.rets = {XLA_FFI_Rets_STRUCT_SIZE, nullptr, static_cast<int64_t>(ret_pointers_.size()), ret_types_.data(),
                 ret_pointers_.data()};
  frame_.attrs = {XLA_FFI_Attrs_STRUCT_SIZE,
                  nullptr,
                  static_cast<int64_t>(attribute_types_.size()),
                  attribute_types_.data(),
                  attribute_names_.data(),
                  attribute_values_.data()};
  return &frame_;
}

}  // namespace callout::internal
