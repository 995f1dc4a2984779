#include "measure/training/step_trace.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "device/cpu_device.h"
#include "measure/sampling/rank_results.h"

namespace amdahl {
namespace {

TraceEvent event(TraceKind kind, double start, double duration, int64_t step = 10) {
  TraceEvent made{kind, "piece", "compute", 0, step};
  made.start_us = start;
  made.duration_us = duration;
  return made;
}

RankTrace rank_on(const std::string& host, double origin_us, double barrier_us, std::vector<TraceEvent> events) {
  RankTrace rank;
  rank.device = "device";
  rank.host = host;
  rank.origin_us = origin_us;
  rank.barrier_us = barrier_us;
  rank.barrier_width_us = 30;
  rank.events = std::move(events);
  return rank;
}

class StampedStep : public ::testing::Test {
 protected:
  void wait_a_moment(Stream& stream) {
    as_cpu(stream).enqueue([] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
  }
  CpuDevice device_{0};
  std::unique_ptr<Stream> compute_ = device_.make_stream("compute"), comm_ = device_.make_stream("comm");
};

TEST_F(StampedStep, EveryPieceIsAnEventOnItsStreamAndBucketsHaveBytes) {
  StepStamps stamps(device_, true);
  std::unique_ptr<Event> origin = device_.make_event();
  compute_->stamp(*origin);
  compute_->synchronize(Deadline::after_seconds(10));  // or the other stream may begin before it
  stamps.begin();
  stamps.start(*compute_, stamps.step);
  stamps.begin_piece(*compute_, "compute", "forward");
  wait_a_moment(*compute_);
  stamps.end_piece(*compute_);
  stamps.start(*comm_, StepStamps::at(stamps.collectives, 0));
  stamps.set_bytes(0, 4096);
  wait_a_moment(*comm_);
  stamps.end(*comm_, stamps.collectives[0]);
  stamps.start(*compute_, StepStamps::at(stamps.stalls, 0));
  stamps.end(*compute_, stamps.stalls[0]);
  stamps.start(*compute_, StepStamps::at(stamps.updates, 0));
  stamps.end(*compute_, stamps.updates[0]);
  stamps.end(*compute_, stamps.step);
  for (Stream* stream : {compute_.get(), comm_.get()}) stream->synchronize(Deadline::after_seconds(10));

  const std::vector<TraceEvent> events = stamped_events(device_, stamps, *origin, 7);
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0].kind, TraceKind::step);
  EXPECT_EQ(events[0].name, "step 7");
  EXPECT_EQ(events[1].name, "forward");
  EXPECT_EQ(events[1].stream, "compute");
  EXPECT_GE(events[1].duration_us, 2000);
  EXPECT_EQ(events[2].kind, TraceKind::communication);
  EXPECT_EQ(events[2].stream, "comm");
  EXPECT_EQ(events[2].bytes, 4096);
  EXPECT_GE(events[2].duration_us, 2000);
  EXPECT_EQ(events[3].kind, TraceKind::waiting);
  EXPECT_EQ(events[4].kind, TraceKind::optimizer);
  EXPECT_EQ(events[4].name, "optimizer");
  for (const TraceEvent& one : events) {
    EXPECT_EQ(one.step, 7);
    EXPECT_GE(one.start_us, 0) << one.name;
  }
  EXPECT_GE(events[3].start_us, events[1].start_us + events[1].duration_us);
}

TEST_F(StampedStep, CommunicationOnTheComputeStreamIsThereOnceAndThere) {
  StepStamps stamps(device_, true);
  std::unique_ptr<Event> origin = device_.make_event();
  compute_->stamp(*origin);
  compute_->synchronize(Deadline::after_seconds(10));  // or the other stream may begin before it
  stamps.communicates_on_compute = true;
  for (std::vector<Span>* spans : {&stamps.collectives, &stamps.stalls}) {
    stamps.start(*compute_, StepStamps::at(*spans, 0));
    stamps.end(*compute_, spans->front());
  }
  compute_->synchronize(Deadline::after_seconds(10));
  const std::vector<TraceEvent> events = stamped_events(device_, stamps, *origin, 0);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, TraceKind::communication);
  EXPECT_EQ(events[0].stream, "compute");
}

TEST_F(StampedStep, AStampOfACpuDeviceIsHostTime) {
  std::unique_ptr<Event> stamp = device_.make_event();
  const auto before = std::chrono::steady_clock::now().time_since_epoch();
  compute_->stamp(*stamp);
  compute_->synchronize(Deadline::after_seconds(10));
  const auto after = std::chrono::steady_clock::now().time_since_epoch();
  const std::optional<int64_t> time = device_.host_time_ns(*stamp);
  ASSERT_TRUE(time.has_value());
  EXPECT_GE(*time, std::chrono::nanoseconds(before).count());
  EXPECT_LE(*time, std::chrono::nanoseconds(after).count());
}

TEST(MergedTrace, RanksOfOneHostShareItsClock) {
  // The same instant, 5,000 us on the host's clock, seen from two origins.
  const StepTrace trace = merge_traces({rank_on("a", 1000, 0, {event(TraceKind::compute, 4000, 10)}),
                                        rank_on("a", 1500, 77, {event(TraceKind::compute, 3500, 20)})});
  ASSERT_EQ(trace.events.size(), 2u);
  EXPECT_DOUBLE_EQ(trace.events[0].start_us, 0);
  EXPECT_DOUBLE_EQ(trace.events[1].start_us, 0);
  EXPECT_EQ(trace.events[1].rank, 1);
  EXPECT_DOUBLE_EQ(trace.ranks[1].clock_uncertainty_us, 0);
  EXPECT_EQ(trace.ranks[1].clock, "the host's steady clock, which its CPU devices share");
}

TEST(MergedTrace, AnotherHostIsAlignedAtTheBarrierAndSaysHowWell) {
  // Both left the barrier together; their clocks are a day apart. The event of rank 1 is 100 us after that of rank 0.
  constexpr double kDay = 86'400e6;
  const StepTrace trace = merge_traces({rank_on("a", 1000, 3000, {event(TraceKind::compute, 2500, 10)}),
                                        rank_on("b", kDay + 900, kDay + 3000, {event(TraceKind::compute, 2700, 5)})});
  EXPECT_NEAR(trace.events[1].start_us - trace.events[0].start_us, 100, 1e-3);
  EXPECT_DOUBLE_EQ(trace.ranks[1].clock_uncertainty_us, 60);
  EXPECT_NE(trace.ranks[1].clock.find("another host"), std::string::npos);
}

TEST(MergedTrace, ADeviceClockIsUncertainByHalfItsWindow) {
  RankTrace rank = rank_on("a", 1000, 0, {event(TraceKind::compute, 0, 1)});
  rank.own_clock = true;
  rank.window_us = 12;
  const StepTrace trace = merge_traces({rank});
  EXPECT_DOUBLE_EQ(trace.ranks[0].clock_uncertainty_us, 6);
  EXPECT_NE(trace.ranks[0].clock.find("12.0 us"), std::string::npos) << trace.ranks[0].clock;
}

TEST(MergedTrace, EventsComeByRankThenTimeAndBeginAtZero) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> time(-500, 500);
  std::vector<RankTrace> ranks;
  for (int r = 0; r < 4; ++r) {
    RankTrace rank = rank_on("a", time(random), 0, {});
    for (int i = 0; i < 50; ++i) rank.events.push_back(event(TraceKind::compute, time(random), 1));
    ranks.push_back(rank);
  }
  const StepTrace trace = merge_traces(ranks);
  ASSERT_EQ(trace.events.size(), 200u);
  double earliest = 1;
  for (size_t i = 0; i < trace.events.size(); ++i) {
    earliest = std::min(earliest, trace.events[i].start_us);
    if (i == 0 || trace.events[i].rank != trace.events[i - 1].rank) continue;
    EXPECT_LE(trace.events[i - 1].start_us, trace.events[i].start_us);
  }
  EXPECT_DOUBLE_EQ(earliest, 0);
}

TEST(TracedSteps, AreComparedWithTheMeasuredStep) {
  StepTrace trace;
  for (const double start : {0.0, 50.0, 101.0, 150.0})
    trace.events.push_back(event(TraceKind::step, start, 40, 10 + static_cast<int64_t>(trace.events.size())));
  trace.events.push_back(event(TraceKind::compute, 3, 7));
  EXPECT_DOUBLE_EQ(traced_step_us(trace), 50) << "from start to start: what lies between two steps counts";
  const std::string words = stamps_text(trace, {25, 24, 90});
  EXPECT_NE(words.find("takes 50.0 us, the measured one 25.0 us (median over 3 runs)"), std::string::npos) << words;
  EXPECT_NE(words.find("2.00 times"), std::string::npos) << words;
  EXPECT_EQ(stamps_text(trace, {}), "") << "nothing was measured";
  trace.events.resize(1);
  EXPECT_DOUBLE_EQ(traced_step_us(trace), 40) << "one step alone";
}

TEST(PackedTrace, ComesBackAsItWas) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> number(-1e6, 1e6);
  RankTrace trace = rank_on("host \n \"x\"", number(random), number(random), {});
  trace.own_clock = true;
  trace.window_us = number(random);
  for (int i = 0; i < 30; ++i) {
    TraceEvent one{static_cast<TraceKind>(i % 7), std::string(static_cast<size_t>(i), 'x'), "comm", 0, i};
    one.start_us = number(random);
    one.duration_us = number(random);
    one.bytes = int64_t{1} << i;
    trace.events.push_back(one);
  }
  const RankTrace back = unpack_result<RankTrace>(pack_result(trace));
  EXPECT_EQ(back.device, trace.device);
  EXPECT_EQ(back.host, trace.host);
  EXPECT_EQ(back.own_clock, true);
  EXPECT_EQ(back.origin_us, trace.origin_us);
  EXPECT_EQ(back.window_us, trace.window_us);
  EXPECT_EQ(back.barrier_us, trace.barrier_us);
  EXPECT_EQ(back.barrier_width_us, trace.barrier_width_us);
  EXPECT_EQ(back.events, trace.events);
}

TEST(PackedTrace, OneThatIsCutOffIsRefused) {
  const std::string packed = pack_result(rank_on("a", 1, 2, {event(TraceKind::host, 1, 2)}));
  EXPECT_THROW(unpack_result<RankTrace>(packed.substr(0, packed.size() - 3)), Error);
}

}  // namespace
}  // namespace amdahl
