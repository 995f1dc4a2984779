// A small trace of two ranks whose numbers can be checked by hand.
#pragma once

#include <string>

#include "amdahl/record.h"

namespace amdahl::test {

inline TraceEvent traced(TraceKind kind, const char* name, const char* stream, int rank, double start, double duration,
                         int64_t bytes = 0) {
  TraceEvent event{kind, name, stream, rank, 12};
  event.start_us = start;
  event.duration_us = duration;
  event.bytes = bytes;
  return event;
}

/// Step 12 of two ranks: 100 us of compute, two buckets of 1,000 and 3,000 bytes. Of rank 0's 60 us of communication
/// 40 are beside compute, of rank 1's 30 us 30.
inline StepTrace fake_trace() {
  StepTrace trace;
  trace.model = "medium";
  trace.strategy = "ddp";
  trace.launch = "eager";
  trace.global_batch = 64;
  trace.devices = 2;
  trace.first_step = 12;
  trace.end_step = 13;
  trace.how = "by hand";
  for (int r = 0; r < 2; ++r) trace.ranks.push_back({r, "CPU \"virtual\" device", "node-1", "steady", 0.5 * r});
  const auto add = [&](TraceEvent event) { trace.events.push_back(event); };
  add(traced(TraceKind::step, "step 12", "step", 0, 0, 140));
  add(traced(TraceKind::compute, "forward", "compute", 0, 0, 40));
  add(traced(TraceKind::compute, "gradients 1", "compute", 0, 40, 60));
  add(traced(TraceKind::communication, "bucket 0", "comm", 0, 60, 30, 1000));
  add(traced(TraceKind::communication, "bucket 1", "comm", 0, 90, 30, 3000));
  add(traced(TraceKind::waiting, "wait for bucket 1", "compute", 0, 100, 20));
  add(traced(TraceKind::optimizer, "optimizer", "compute", 0, 120, 20));
  add(traced(TraceKind::host, "enqueue step 12", "host", 0, 0, 9));
  add(traced(TraceKind::step, "step 12", "step", 1, 10, 110));
  add(traced(TraceKind::compute, "forward", "compute", 1, 10, 100));
  add(traced(TraceKind::communication, "bucket 0", "comm", 1, 70, 30, 1000));
  trace.provenance.tool_version = "0.1.0";
  trace.provenance.commit = "abc1234";
  trace.provenance.command_line = "amdahl study --trace";
  trace.provenance.start_time = "2026-01-02T03:04:05Z";
  trace.provenance.host = "node-1";
  trace.provenance.device_kind = "cpu-virtual";
  return trace;
}

}  // namespace amdahl::test
