// The flight recorder: what a rank did last, in memory and in the file that outlives it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "comm/flight_recorder.h"
#include "comm/world.h"

namespace amdahl {
namespace {

namespace fs = std::filesystem;

class FlightFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "amdahl-flight-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

CollectiveCall all_reduce(uint64_t seq) {
  return {CollectiveKind::all_reduce, seq, 10 * seq, DType::f32, ReduceOp::max, -1};
}

TEST(FlightRecorder, KeepsTheLastCallsInOrder) {
  const auto log = std::make_shared<FlightLog>(std::vector<int>{5});
  const auto recorder = FlightLog::recorder(log, 0);
  constexpr uint64_t kIssued = FlightRecorder::kCalls + 7;
  for (uint64_t seq = 1; seq <= kIssued; ++seq) {
    const uint64_t number = recorder->issued(all_reduce(seq), 4);
    EXPECT_EQ(number, seq);
    if (seq % 2 == 0) recorder->finished(number);
  }
  const RankFlight flight = recorder->snapshot();
  EXPECT_EQ(flight.rank, 5);
  EXPECT_EQ(flight.process, ::getpid());
  ASSERT_EQ(flight.calls.size(), FlightRecorder::kCalls);
  for (size_t i = 0; i < flight.calls.size(); ++i) {
    const RecordedCall& call = flight.calls[i];
    EXPECT_EQ(call.number, kIssued - FlightRecorder::kCalls + 1 + i);
    EXPECT_EQ(call.call.describe(), all_reduce(call.number).describe());
    EXPECT_EQ(call.finished, call.number % 2 == 0) << call.number;
    EXPECT_EQ(call.world_size, 4);
  }
}

TEST(FlightRecorder, HasRootsAndPeers) {
  const auto log = std::make_shared<FlightLog>(std::vector<int>{0});
  const auto recorder = FlightLog::recorder(log, 0);
  const CollectiveCall send{CollectiveKind::send, 3, 7, DType::bf16, ReduceOp::sum, 2};
  recorder->issued(send, 3);
  recorder->issued({CollectiveKind::exchange, 9, 0, DType::u8, ReduceOp::sum, -1}, 3);
  const RankFlight flight = recorder->snapshot();
  ASSERT_EQ(flight.calls.size(), 2U);
  EXPECT_EQ(flight.calls[0].call.describe(), send.describe());
  EXPECT_EQ(flight.calls[1].call.describe(), "exchange #9");
}

TEST_F(FlightFolder, AFileHasTheRanksOfItsProcessAndGoesWithIt) {
  {
    const auto log = std::make_shared<FlightLog>(std::vector<int>{0, 1});
    FlightLog::recorder(log, 1)->issued(all_reduce(1), 2);
    fs::create_directory(folder_ / "flight");
    ASSERT_TRUE(log->keep_in(folder_ / "flight"));
    FlightLog::recorder(log, 0)->finished(FlightLog::recorder(log, 0)->issued(all_reduce(2), 2));
    const std::vector<RankFlight> flights = read_flights(folder_ / "flight");
    ASSERT_EQ(flights.size(), 2U);
    EXPECT_TRUE(flights[0].alive);
    ASSERT_EQ(flights[0].calls.size(), 1U);
    EXPECT_TRUE(flights[0].calls[0].finished);
    ASSERT_EQ(flights[1].calls.size(), 1U) << "calls from before the file are in it";
    EXPECT_EQ(flights[1].calls[0].call.seq, 1U);
  }
  EXPECT_FALSE(fs::exists(folder_ / "flight"));
}

TEST_F(FlightFolder, NoFolderIsNoError) {
  const auto log = std::make_shared<FlightLog>(std::vector<int>{0});
  EXPECT_FALSE(log->keep_in(folder_ / "nowhere"));
  FlightLog::recorder(log, 0)->issued(all_reduce(1), 2);
  EXPECT_EQ(FlightLog::recorder(log, 0)->snapshot().calls.size(), 1U);
}

TEST_F(FlightFolder, AnExceptionLeavesTheFile) {
  try {
    FlightLog log({3});
    ASSERT_TRUE(log.keep_in(folder_));
    throw std::runtime_error("lost");
  } catch (const std::runtime_error&) {
  }
  const std::vector<RankFlight> flights = read_flights(folder_);
  ASSERT_EQ(flights.size(), 1U);
  EXPECT_EQ(flights[0].rank, 3);
  EXPECT_FALSE(flights[0].alive);
}

TEST_F(FlightFolder, TellsOfAProcessThatWasKilled) {
  const pid_t child = ::fork();
  if (child == 0) {
    FlightLog log({1});
    const auto shared = std::shared_ptr<FlightLog>(&log, [](FlightLog*) {});
    if (!log.keep_in(folder_)) ::_exit(1);
    FlightLog::recorder(shared, 0)->issued(all_reduce(77), 2);
    note_signal_in_flights(SIGUSR1);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const std::vector<RankFlight> flights = read_flights(folder_);
  ASSERT_EQ(flights.size(), 1U);
  EXPECT_FALSE(flights[0].alive);
  EXPECT_EQ(flights[0].process, child);
  EXPECT_EQ(flights[0].signal, SIGUSR1);
  ASSERT_EQ(flights[0].calls.size(), 1U);
  EXPECT_EQ(flights[0].calls[0].call.seq, 77U);
  EXPECT_FALSE(flights[0].calls[0].finished);
}

TEST_F(FlightFolder, OtherFilesAreNoPages) {
  std::ofstream(folder_ / "rank-0") << "not a page";
  std::ofstream(folder_ / "rank-1") << "";
  fs::create_directory(folder_ / "rank-2");
  EXPECT_TRUE(read_flights(folder_).empty());
  EXPECT_TRUE(read_flights(folder_ / "nowhere").empty());
}

TEST(FlightRecorder, APageIsReadWhileItIsWritten) {
  const auto log = std::make_shared<FlightLog>(std::vector<int>{0});
  const auto recorder = FlightLog::recorder(log, 0);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t seq = 1; !stop; ++seq) recorder->issued(all_reduce(seq), 2);
  });
  for (int i = 0; i < 2000; ++i)
    for (const RecordedCall& call : recorder->snapshot().calls) {  // never half of one call and half of another
      ASSERT_EQ(call.call.seq, call.number);
      ASSERT_EQ(call.call.count, 10 * call.call.seq);
    }
  stop = true;
  writer.join();
}

#ifdef NDEBUG  // optimised
TEST(FlightRecorder, CostsLessThanATenthOfAMicrosecond) {
  const auto log = std::make_shared<FlightLog>(std::vector<int>{0});
  const auto recorder = FlightLog::recorder(log, 0);
  constexpr int kBatches = 200, kCallsOfBatch = 1000;
  double least_us = 1e9;  // of a call; a busy machine makes others longer
  for (int batch = 0; batch < kBatches; ++batch) {
    const auto start = std::chrono::steady_clock::now();
    for (uint64_t seq = 1; seq <= kCallsOfBatch; ++seq)
      FlightNote(recorder, recorder->issued(all_reduce(seq), 2)).finished();
    const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    least_us = std::min(least_us, us / kCallsOfBatch);
  }
  RecordProperty("us_per_call", std::to_string(least_us));
  std::printf("%.4f us per call\n", least_us);
  EXPECT_LT(least_us, 0.1);
}
#endif

TEST(FlightRecorder, CommunicatorsNoteTheirCalls) {
  auto group = make_inproc_communicators(2, 10);
  const auto log = std::make_shared<FlightLog>(std::vector<int>{0, 1});
  for (size_t i = 0; i < 2; ++i) group[i]->set_flight_recorder(FlightLog::recorder(log, i));
  std::thread other([&] { group[1]->exchange("b", Deadline::after_seconds(10)); });
  group[0]->exchange("a", Deadline::after_seconds(10));
  other.join();
  for (size_t i = 0; i < 2; ++i) {
    const RankFlight flight = FlightLog::recorder(log, i)->snapshot();
    ASSERT_EQ(flight.calls.size(), 1U);
    EXPECT_EQ(flight.calls[0].call.kind, CollectiveKind::exchange);
    EXPECT_TRUE(flight.calls[0].finished);
    EXPECT_EQ(group[i]->traffic().num_calls, 0U);
  }
}

}  // namespace
}  // namespace amdahl
