// SPDX-License-Identifier: Apache-2.0
//
// A table of measured times beside those of a peer.
#pragma once

#include <deque>
#include <string>
#include <vector>

namespace callout::bench {

/// Returns the sample at `part` of the sorted samples (0.5: the median); between two samples, the nearer one.
double Quantile(std::vector<double> samples, double part);

/// One contender, with the seconds of each repetition.
struct Row {
  std::string name;
  std::vector<double> samples = {};
};

class Table {
 public:
  enum class Comparison { kDifference, kRatio };

  /// `unit`: "ns" or "ms".
  Table(std::string title, std::string unit, Comparison comparison)
      : title_(std::move(title)), unit_(std::move(unit)), comparison_(comparison) {}

  /// Borrowed: valid as long as the table.
  Row& Add(std::string name);
  /// Adds the row that the others are compared with.
  Row& AddPeer(std::string name);
  /// Prints medians with quartiles in Markdown, without rows that were not measured; nothing if none was.
  void Print() const;

 private:
  const std::string title_;
  const std::string unit_;
  const Comparison comparison_;
  std::deque<Row> rows_;
  const Row* peer_ = nullptr;
};

}  // namespace callout::bench
