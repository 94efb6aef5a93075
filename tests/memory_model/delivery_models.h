// SPDX-License-Identifier: Apache-2.0
//
// The delivery thread with its queue: every record arrives, whenever the thread rests, is parked or is stopped.
#pragma once

#include "delivery.h"
#include "runner.h"

namespace callout::model {
struct ThreadTakesRecords : DeliverySuite<ThreadTakesRecords, 3> {
  void thread(unsigned index) {
    if (index == 0) {
      delivery->Start();
      WaitUntilConsumed(4);
      delivery->Stop(kForever);
    } else {
      Push(1);
      Push(2, 1, kHalfChunk);
    }
  }
};

// A barrier.
struct WaitForSeesWhatWasDelivered : DeliverySuite<WaitForSeesWhatWasDelivered, 1> {
  void thread(unsigned /*index*/) {
    delivery->Start();
    Push(1);
    RL_ASSERT(delivery->WaitFor(*queue, queue->taken(), kForever));
    RL_ASSERT(payloads[0]->is_consumed);
    payloads[0]->value($) = 2;  // a data race if the delivery is not before this
    delivery->Stop(kForever);
  }
};

struct ParkingLosesNoRecord : DeliverySuite<ParkingLosesNoRecord, 2, 3> {
  void thread(unsigned index) {
    if (index == 0) {
      delivery->Park();
      WaitUntilConsumed(1);
      delivery->Stop(kForever);
    } else {
      Push(1);
    }
  }
};

// As Delivery::Shutdown: what the thread has left is for whoever stopped it, which is the consumer then.
struct StoppedThreadLeavesItsQueueAlone : DeliverySuite<StoppedThreadLeavesItsQueueAlone, 2, 3> {
  void after() {
    delivery.reset();  // a late record goes with the queue
    DeliverySuite::after();
  }
  void thread(unsigned index) {
    if (index == 0) {
      delivery->Park();
      queue->Close();
      delivery->Stop(kForever);
      (void)queue->CountValues();
      RL_ASSERT(!delivery->running());
    } else {
      Push(1);
    }
  }
};

inline void AddDeliveryModels(std::vector<Model>& models) {
  models.push_back(Sampled<ThreadTakesRecords>("ThreadTakesRecords", 3000));
  models.push_back(Searched<WaitForSeesWhatWasDelivered>("WaitForSeesWhatWasDelivered", 1, Weakened::kAll));
  models.push_back(Searched<ParkingLosesNoRecord>("ParkingLosesNoRecord", 1, Weakened::kAll));
  models.push_back(Sampled<ParkingLosesNoRecord>("ParkingLosesNoRecordSampled", 10000));
  models.push_back(Sampled<StoppedThreadLeavesItsQueueAlone>("StoppedThreadLeavesItsQueueAlone", 10000));
}

}  // namespace callout::model
