// SPDX-License-Identifier: Apache-2.0
// Computes the confusion matrix and the calibration of a classifier from its logits. The training program calls this by
// the name that the demo registers, without Python, and without a linked library.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "callout/call.h"

namespace {

// Arguments: logits f32[n, classes], labels s32[n].
// Results: confusion s32[classes, classes], whose rows are the true classes;
//          calibration f32[bins, 3]: the number of predictions in a bin of confidence, the sum of their confidences,
//          and the number of right ones.
void Evaluate(const callout::Call& call) {
  const auto logits = call.arg<float>(0);
  const auto labels = call.arg<int32_t>(1);
  const auto confusion = call.result<int32_t>(0);
  const auto calibration = call.result<float>(1);
  const int64_t n = logits.dims()[0], classes = logits.dims()[1], bins = calibration.dims()[0];
  std::fill(confusion.begin(), confusion.end(), 0);
  std::fill(calibration.begin(), calibration.end(), 0.0F);
  for (int64_t i = 0; i < n; ++i) {
    const float* row = logits.data() + i * classes;
    const float* best = std::max_element(row, row + classes);
    float sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(row[c] - *best);
    const float confidence = 1 / sum;  // softmax of the largest logit
    const int64_t predicted = best - row;
    if (labels[i] < 0 || labels[i] >= classes) throw std::invalid_argument("label out of range");
    ++confusion[labels[i] * classes + predicted];
    const auto bin = std::min(static_cast<int64_t>(confidence * static_cast<float>(bins)), bins - 1);
    calibration[bin * 3] += 1;
    calibration[bin * 3 + 1] += confidence;
    calibration[bin * 3 + 2] += predicted == labels[i] ? 1 : 0;
  }
}

}  // namespace

CALLOUT_DEFINE_CALLBACK(evaluate, Evaluate);
