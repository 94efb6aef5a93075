// SPDX-License-Identifier: Apache-2.0
//
// Models of the delivery thread with its queue: every record arrives, even if the thread sleeps, is parked or is
// stopped.
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

// Models a barrier.
struct WaitForSeesDeliveredRecords : DeliverySuite<WaitForSeesDeliveredRecords, 1> {
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

// Models Delivery::Shutdown: the thread that stopped the delivery thread becomes the consumer of its records.
struct StoppedThreadLeavesItsQueueAlone : DeliverySuite<StoppedThreadLeavesItsQueueAlone, 2, 3> {
  void after() {
    delivery.reset();  // a late record is destroyed with the queue
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
  models.push_back(Searched<WaitForSeesDeliveredRecords>("WaitForSeesDeliveredRecords", 1, Weakened::kAll));
  models.push_back(Searched<ParkingLosesNoRecord>("ParkingLosesNoRecord", 1, Weakened::kAll));
  models.push_back(Sampled<ParkingLosesNoRecord>("ParkingLosesNoRecordSampled", 10000));
  models.push_back(Sampled<StoppedThreadLeavesItsQueueAlone>("StoppedThreadLeavesItsQueueAlone", 10000));
}

}  // namespace callout::model
