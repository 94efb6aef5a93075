// SPDX-License-Identifier: Apache-2.0
#include "core/attributes/attribute_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace callout::internal {
namespace {

// Visits all rows of a table, and those of its dictionaries.
template <typename Visit>
void ForEachRow(std::span<const AttributeDescription> rows, Visit&& visit) {
  for (const AttributeDescription& row : rows) {
    visit(row);
    ForEachRow(row.entries, visit);
  }
}

TEST(TargetAttributesTest, TargetsAreSortedAndSayFirstWhatTheyAreAbout) {
  const auto all = AllTargetAttributes();
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, &TargetAttributes::target));
  for (const TargetAttributes& target : all) {
    const std::string_view first = target.target == "callout.v1.read" ? "kind" : kCallbackAttribute;
    EXPECT_EQ(target.attributes.front().name, first) << target.target;
    EXPECT_TRUE(target.attributes.front().is_required) << target.target;
  }
}

TEST(TargetAttributesTest, NamesOfATableAreDistinct) {
  const auto check = [](std::span<const AttributeDescription> rows, const auto& self) -> void {
    std::set<std::string_view> names;
    for (const AttributeDescription& row : rows) {
      EXPECT_TRUE(names.insert(row.name).second) << row.name;
      self(row.entries, self);
    }
  };
  for (const TargetAttributes& target : AllTargetAttributes()) check(target.attributes, check);
}

TEST(TargetAttributesTest, DefaultsAreWithinTheTermsAndEachRowSaysWhatItMeans) {
  for (const TargetAttributes& target : AllTargetAttributes()) {
    ForEachRow(target.attributes, [](const AttributeDescription& row) {
      EXPECT_FALSE(row.meaning.empty()) << row.name;
      EXPECT_FALSE(row.terms.since.empty()) << row.name;
      if (row.type != AttributeType::kInteger) return;
      EXPECT_GE(row.fallback, row.terms.least) << row.name;
      EXPECT_LE(row.fallback, row.terms.most) << row.name;
    });
  }
}

}  // namespace
}  // namespace callout::internal
