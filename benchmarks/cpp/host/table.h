// SPDX-License-Identifier: Apache-2.0
//
// What was measured, beside what it is compared with.
#pragma once

#include <deque>
#include <string>
#include <vector>

namespace callout::bench {

/// `part`: 0.5 for the median; between two samples the nearer one.
double Quantile(std::vector<double> samples, double part);

/// One contender: the seconds of each repetition.
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

  /// Valid as long as the table.
  Row& Add(std::string name);
  /// With which the others are compared.
  Row& AddPeer(std::string name);
  /// In Markdown, medians with quartiles; without rows that were not measured. Nothing if none was.
  void Print() const;

 private:
  const std::string title_;
  const std::string unit_;
  const Comparison comparison_;
  std::deque<Row> rows_;
  const Row* peer_ = nullptr;
};

}  // namespace callout::bench
