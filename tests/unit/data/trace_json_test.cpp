#include "spec/trace_json.h"

#include <gtest/gtest.h>

#include <random>

#include "trace_records.h"

namespace amdahl {
namespace {

using test::fake_trace;

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

Error read_error(const std::string& text) {
  try {
    trace_from_json(text, "trace.json");
  } catch (const Error& error) {
    return error;
  }
  return Error(Cause::internal, "accepted");
}

std::string with(const std::string& part, const std::string& other) {
  std::string text = trace_to_json(fake_trace());
  const size_t at = text.find(part);
  if (at == std::string::npos) throw Error(Cause::internal, part + " is not in the document");
  return text.replace(at, part.size(), other);
}

TEST(TraceJson, RoundTrips) {
  const StepTrace trace = fake_trace();
  const StepTrace back = trace_from_json(trace_to_json(trace), "trace.json");
  EXPECT_EQ(back.events, trace.events);
  EXPECT_EQ(back.ranks, trace.ranks);
  EXPECT_EQ(back.how, trace.how);
  EXPECT_EQ(back.end_step, 13);
  EXPECT_EQ(back.provenance, trace.provenance);
  EXPECT_EQ(trace_to_json(back), trace_to_json(trace));
}

TEST(TraceJson, DamageIsNamed) {
  EXPECT_EQ(read_error("{").cause(), Cause::store_corrupt);
  EXPECT_EQ(read_error(with("\"version\": 1", "\"version\": 2")).cause(), Cause::version_refused);
  const Error kind = read_error(with("\"communication\"", "\"gossip\""));
  EXPECT_EQ(kind.cause(), Cause::store_corrupt);
  EXPECT_NE(std::string(kind.what()).find("gossip"), std::string::npos) << kind.what();
  EXPECT_EQ(read_error(with("\"duration_us\": 60.0", "\"duration_us\": -1.0")).cause(), Cause::store_corrupt);
  EXPECT_EQ(read_error(with("\"rank\": 1", "\"rank\": 5")).cause(), Cause::store_corrupt);
  EXPECT_EQ(read_error(with("\"step-trace\"", "\"links\"")).cause(), Cause::store_corrupt);
}

TEST(TraceJson, TimesAreWholeNs) {
  StepTrace trace = fake_trace();
  trace.events.front().start_us = 1.23456789;
  const StepTrace back = trace_from_json(trace_to_json(trace), "trace.json");
  EXPECT_DOUBLE_EQ(back.events.front().start_us, 1.235);
}

TEST(ChromeTrace, HasAProcessPerRankAThreadPerStreamAndEveryEvent) {
  const StepTrace trace = fake_trace();
  const ChromeTrace chrome = chrome_trace(trace, 1 << 20);
  EXPECT_EQ(chrome.notice, "");
  EXPECT_EQ(count_of(chrome.json, "\"ph\":\"X\""), trace.events.size());
  EXPECT_EQ(count_of(chrome.json, "\"process_name\""), 2u);
  EXPECT_EQ(count_of(chrome.json, "\"thread_name\""), 4u + 3u);  // step, compute, comm; host on rank 0 alone
  EXPECT_NE(chrome.json.find(R"(rank 0, CPU \"virtual\" device, node-1)"), std::string::npos) << chrome.json;
  EXPECT_NE(
      chrome.json.find(
          R"({"ph":"X","pid":1,"tid":1004,"ts":90.000,"dur":30.000,"name":"bucket 1","cat":"communication","args":{"step":12,"bytes":3000}})"),
      std::string::npos)
      << chrome.json;
}

// Neighbours share their border to the ns whatever the digits, or viewers nest one in the other.
TEST(ChromeTrace, NeighboursNeitherOverlapNorGape) {
  StepTrace trace = fake_trace();
  trace.events.clear();
  std::mt19937 random(3);
  std::uniform_real_distribution<double> length(0.0001, 5);
  double at = 0;
  for (int i = 0; i < 200; ++i) {
    const double duration = length(random);
    trace.events.push_back(test::traced(TraceKind::compute, "piece", "compute", 0, at, duration));
    at += duration;
  }
  const std::string json = chrome_trace(trace, 1 << 20).json;
  const auto ns_after = [&](size_t from, const char* key) {
    const size_t begin = json.find(key, from) + std::string(key).size();
    const size_t dot = json.find('.', begin);
    return std::stoll(json.substr(begin, dot - begin)) * 1000 + std::stoll(json.substr(dot + 1, 3));
  };
  int64_t end = 0;
  int events = 0;
  for (size_t line = json.find("\"ph\":\"X\""); line != std::string::npos; line = json.find("\"ph\":\"X\"", line + 1)) {
    const int64_t start = ns_after(line, "\"ts\":");
    EXPECT_EQ(start, events++ > 0 ? end : start);
    end = start + ns_after(line, "\"dur\":");
  }
  EXPECT_EQ(events, 200);
}

TEST(ChromeTrace, StaysWithinItsSizeAndSaysWhatIsMissing) {
  const StepTrace trace = fake_trace();
  const size_t whole = chrome_trace(trace, 1 << 20).json.size();
  const ChromeTrace cut = chrome_trace(trace, whole - 200);
  EXPECT_LE(cut.json.size(), whole - 200);
  const size_t kept = count_of(cut.json, "\"ph\":\"X\"");
  EXPECT_LT(kept, trace.events.size());
  EXPECT_GT(kept, 0u);
  EXPECT_NE(cut.notice.find(std::to_string(kept) + " of 11 events"), std::string::npos) << cut.notice;
  EXPECT_NE(cut.json.find(cut.notice), std::string::npos);
  EXPECT_EQ(cut.json.find("\"optimizer\""), std::string::npos);  // the last to begin is the first to go
}

TEST(ChromeTrace, NamesFromOutsideAreEscaped) {
  StepTrace trace = fake_trace();
  trace.provenance.command_line = "amdahl \"x\" \n </script>";
  trace.ranks[0].host = "\x01\xff";
  const std::string json = chrome_trace(trace, 1 << 20).json;
  EXPECT_NE(json.find(R"(amdahl \"x\" \n )"), std::string::npos);
  EXPECT_EQ(json.find('\x01'), std::string::npos);
  EXPECT_EQ(json.find('\xff'), std::string::npos);
}

}  // namespace
}  // namespace amdahl
