// SPDX-License-Identifier: Apache-2.0
//
// Attributes of call sites, laid out as by XLA. Most of them come from a target's table, with the types and limits
// stated there, so that the code behind the checks is reached; the others are random.
#pragma once

#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/attributes/attribute_rows.h"
#include "core/frame/ffi_abi.h"

namespace callout::fuzz {

class Values {
 public:
  /// Valid values of attributes, by name. Now and then one number of a list is changed.
  struct Known {
    std::map<std::string, std::vector<std::string>, std::less<>> texts;
    std::map<std::string, std::vector<std::vector<int64_t>>, std::less<>> lists;
  };

  /// Borrowed: `known` outlives this object.
  Values(FuzzedDataProvider& data, const Known& known) : data_(data), known_(known) {}

  /// Returns random attributes for a target with these rows. Borrowed: valid until `this` is destroyed.
  XLA_FFI_Attrs Of(std::span<const internal::AttributeDescription> rows) {
    Entries entries;
    AddRows(rows, entries, 0);
    return Dictionary(entries);
  }

 private:
  using Value = std::pair<XLA_FFI_AttrType, void*>;
  using Entries = std::map<std::string, Value>;
  static constexpr int kMostDepth = 2;

  bool OneIn(int n) { return data_.ConsumeIntegralInRange(1, n) == n; }

  void AddRows(std::span<const internal::AttributeDescription> rows, Entries& entries, int depth) {
    for (const internal::AttributeDescription& row : rows) {
      if (row.is_required ? OneIn(32) : !OneIn(5)) continue;
      const bool is_any = !known_.texts.contains(row.name) && OneIn(24);
      entries[std::string(row.name)] = is_any ? Any(depth) : Of(row, depth);
    }
    while (OneIn(8)) entries[data_.ConsumeRandomLengthString(12)] = Any(depth);
  }

  XLA_FFI_Attrs Dictionary(const Entries& entries) {
    std::vector<XLA_FFI_AttrType>& types = types_.emplace_back();
    std::vector<XLA_FFI_ByteSpan*>& names = names_.emplace_back();
    std::vector<void*>& values = values_.emplace_back();
    for (const auto& [name, value] : entries) {
      types.push_back(value.first);
      names.push_back(static_cast<XLA_FFI_ByteSpan*>(Text(name).second));
      values.push_back(value.second);
    }
    const auto size = static_cast<int64_t>(entries.size());
    return {XLA_FFI_Attrs_STRUCT_SIZE, nullptr, size, types.data(), names.data(), values.data()};
  }

  Value Text(const std::string& text) {
    const std::string& kept = texts_.emplace_back(text);
    return {XLA_FFI_AttrType_STRING, &spans_.emplace_back(XLA_FFI_ByteSpan{kept.data(), kept.size()})};
  }

  Value Numbers(XLA_FFI_DataType type, const std::vector<int64_t>& numbers) {
    std::vector<int64_t>& memory = numbers_.emplace_back(numbers);
    memory.resize(2 * numbers.size() + 2);  // room for elements of any type
    return {XLA_FFI_AttrType_ARRAY, &arrays_.emplace_back(XLA_FFI_Array{type, numbers.size(), memory.data()})};
  }

  Value Number(XLA_FFI_DataType type, int64_t value) {
    std::vector<int64_t>& memory = numbers_.emplace_back(2);
    memory[0] = value;
    return {XLA_FFI_AttrType_SCALAR, &scalars_.emplace_back(XLA_FFI_Scalar{type, memory.data()})};
  }

  int64_t NumberOf(const internal::AttributeTerms& terms) {
    constexpr int64_t kFew = 6;
    if (OneIn(32)) return data_.ConsumeIntegral<int64_t>();
    if (OneIn(16)) return data_.ConsumeBool() ? terms.least : terms.most;
    const int64_t least = std::max<int64_t>(terms.least, -1);
    return data_.ConsumeIntegralInRange(least, std::max(least, std::min(terms.most, least + kFew)));
  }

  std::vector<int64_t> ListOf(const internal::AttributeDescription& row) {
    const internal::AttributeTerms& terms = row.terms;
    const auto known = known_.lists.find(row.name);
    if (known != known_.lists.end() && !OneIn(8)) {
      std::vector<int64_t> numbers = known->second[Below(known->second.size())];
      if (!numbers.empty() && OneIn(4)) numbers[Below(numbers.size())] = NumberOf(terms);
      return numbers;
    }
    const size_t count = terms.count != 0 && !OneIn(32) ? terms.count : terms.group * (1 + Below(4));
    std::vector<int64_t> numbers(OneIn(32) ? Below(8) : count);
    for (int64_t& number : numbers) number = NumberOf(terms);
    return numbers;
  }

  Value Of(const internal::AttributeDescription& row, int depth) {
    using internal::AttributeType;
    const internal::AttributeTerms& terms = row.terms;
    switch (row.type) {
      case AttributeType::kString: {
        const auto known = known_.texts.find(row.name);
        if (known != known_.texts.end()) return Text(known->second[Below(known->second.size())]);
        if (!terms.choices.empty()) return Text(std::string(terms.choices[Below(terms.choices.size())]));
        return Text(data_.ConsumeRandomLengthString(24));
      }
      case AttributeType::kInteger:
        return Number(XLA_FFI_DataType_S64, NumberOf(terms));
      case AttributeType::kIntegers:
        return Numbers(XLA_FFI_DataType_S64, ListOf(row));
      case AttributeType::kStrings:  // only payloads have these fields, never the attributes of a call
      case AttributeType::kRest:
      case AttributeType::kDictionary:
        break;
    }
    Entries entries;
    AddRows(row.entries, entries, depth + 1);
    for (size_t codes = row.has_free_entries ? Below(4) : 0; codes > 0; --codes) {
      entries[std::to_string(data_.ConsumeIntegralInRange(-1, 20))] = Text(data_.ConsumeRandomLengthString(12));
    }
    if (row.entries.empty()) {
      for (size_t free = Below(5); free > 0; --free) entries[data_.ConsumeRandomLengthString(6)] = Any(depth + 1);
    }
    return {XLA_FFI_AttrType_DICTIONARY, &dictionaries_.emplace_back(Dictionary(entries))};
  }

  size_t Below(size_t limit) { return data_.ConsumeIntegralInRange<size_t>(0, limit - 1); }

  XLA_FFI_DataType ElementType() {
    return data_.ConsumeBool() ? XLA_FFI_DataType_S64
                               : static_cast<XLA_FFI_DataType>(data_.ConsumeIntegralInRange(0, 40));
  }

  Value Any(int depth) {
    switch (data_.ConsumeIntegralInRange(0, depth < kMostDepth ? 3 : 2)) {
      case 0:
        return Number(ElementType(), data_.ConsumeIntegral<int64_t>());
      case 1: {
        std::vector<int64_t> numbers(Below(7));
        for (int64_t& number : numbers) number = NumberOf({});
        return Numbers(ElementType(), numbers);
      }
      case 2:
        return Text(data_.ConsumeRandomLengthString(40));
      default: {
        Entries entries;
        for (size_t i = Below(4); i > 0; --i) entries[data_.ConsumeRandomLengthString(12)] = Any(depth + 1);
        return {XLA_FFI_AttrType_DICTIONARY, &dictionaries_.emplace_back(Dictionary(entries))};
      }
    }
  }

  FuzzedDataProvider& data_;
  const Known& known_;
  std::deque<std::string> texts_;
  std::deque<XLA_FFI_ByteSpan> spans_;
  std::deque<std::vector<int64_t>> numbers_;
  std::deque<XLA_FFI_Scalar> scalars_;
  std::deque<XLA_FFI_Array> arrays_;
  std::deque<XLA_FFI_Attrs> dictionaries_;
  std::deque<std::vector<XLA_FFI_AttrType>> types_;
  std::deque<std::vector<XLA_FFI_ByteSpan*>> names_;
  std::deque<std::vector<void*>> values_;
};

}  // namespace callout::fuzz
