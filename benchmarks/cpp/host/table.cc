// SPDX-License-Identifier: Apache-2.0
#include "host/table.h"

#include <algorithm>
#include <cstdio>

namespace callout::bench {
double Quantile(std::vector<double> samples, double part) {
  std::sort(samples.begin(), samples.end());
  return samples[static_cast<size_t>(part * static_cast<double>(samples.size() - 1) + 0.5)];
}

Row& Table::Add(std::string name) { return rows_.emplace_back(Row{std::move(name)}); }

Row& Table::AddPeer(std::string name) {
  Row& row = Add(std::move(name));
  peer_ = &row;
  return row;
}

void Table::Print() const {
  if (std::all_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.samples.empty(); })) return;
  const bool compares = peer_ != nullptr && !peer_->samples.empty();
  std::printf("\n| %s | %s |%s\n| --- | ---: |%s\n", title_.c_str(), unit_.c_str(),
              compares ? (" beside the " + peer_->name + " |").c_str() : "", compares ? " ---: |" : "");
  const double scale = unit_ == "ms" ? 1e3 : 1e9;
  const auto text = [scale](double seconds) {
    char digits[32];
    const double number = seconds * scale;
    std::snprintf(digits, sizeof(digits), "%.*f", number < 10 ? 2 : number < 1000 ? 1 : 0, number);
    return std::string(digits);
  };
  for (const Row& row : rows_) {
    if (row.samples.empty()) continue;
    const double median = Quantile(row.samples, 0.5);
    std::printf("| %s | %s (%s..%s) |", row.name.c_str(), text(median).c_str(),
                text(Quantile(row.samples, 0.25)).c_str(), text(Quantile(row.samples, 0.75)).c_str());
    if (compares && &row == peer_) std::printf(" |");
    if (compares && &row != peer_) {
      const double peer = Quantile(peer_->samples, 0.5);
      if (comparison_ == Comparison::kRatio) std::printf(" %.3fx |", median / peer);
      if (comparison_ == Comparison::kDifference) std::printf(" %+.0f |", (median - peer) * scale);
    }
    std::printf("\n");
  }
}

}  // namespace callout::bench
