// Files of other tools, and our own documents, with every field in turn missing or of another kind: read or refused
// with the name of the file, never anything else.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "errors.h"
#include "report/study/summary.h"
#include "report_records.h"
#include "spec/json.h"
#include "spec/measurements.h"
#include "temporary_folder.h"

namespace amdahl {
namespace {

using nlohmann::json;

json fixture(const std::string& name) {
  std::ifstream file(std::string(AMDAHL_SOURCE_DIR "/tests/cli/fixtures/") + name);
  return json::parse(file);
}

// JSON pointers to every value in the document; of long lists, to the first two elements.
void add_places(const json& value, const std::string& place, std::vector<std::string>& places) {
  if (!place.empty()) places.push_back(place);
  if (value.is_object()) {
    for (const auto& [name, member] : value.items()) {
      std::string escaped;
      for (const char c : name) escaped += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
      add_places(member, place + "/" + escaped, places);
    }
  } else if (value.is_array()) {
    for (size_t i = 0; i < std::min<size_t>(value.size(), 2); ++i)
      add_places(value[i], fmt::format("{}/{}", place, i), places);
  }
}

std::vector<json> other_values() {
  return {nullptr,       true,           -1,      0, 1e300, 9223372036854775807, "", "x", "\x1b[31m",
          json::array(), json::object(), {1, "a"}};
}

void erase_at(json& document, const std::string& place) {
  const json::json_pointer pointer(place);
  json& parent = document[pointer.parent_pointer()];
  if (parent.is_array())
    parent.erase(static_cast<size_t>(std::stoul(pointer.back())));
  else
    parent.erase(pointer.back());
}

struct Tally {
  int read = 0, refused = 0;
};

void expect_read_or_named(const TestFolder& folder, const json& document, const std::string& what, Tally& tally) {
  const std::string path = folder.write("the-file.json", document.dump());
  const Error error = error_of([&] { static_cast<void>(read_measurements(path)); });
  if (error.cause() == Cause::internal) {
    EXPECT_EQ(std::string(error.what()), "no error was thrown") << what;
    ++tally.read;
    return;
  }
  ++tally.refused;
  EXPECT_TRUE(error.cause() == Cause::usage || error.cause() == Cause::version_refused ||
              error.cause() == Cause::store_corrupt)
      << what << ": " << error.line();
  EXPECT_NE(error.line().find("the-file.json"), std::string::npos) << what << ": " << error.line();
  EXPECT_FALSE(error.remedy().empty()) << what << ": " << error.line();
  EXPECT_EQ(error.line().find('\x1b'), std::string::npos) << what;
}

Tally damage_every_field(const json& document) {
  const TestFolder folder;
  std::vector<std::string> places;
  add_places(document, "", places);
  Tally tally;
  for (size_t at = 0; at < places.size(); ++at) {
    const std::string& place = places[at];
    json bent = document;
    erase_at(bent, place);
    expect_read_or_named(folder, bent, "without " + place, tally);
    const std::vector<json> values = other_values();
    for (size_t k = 0; k < 3; ++k) {  // others for the next place: all of them for all would take seconds
      const json& other = values[(5 * at + 4 * k) % values.size()];
      bent = document;
      bent[json::json_pointer(place)] = other;
      expect_read_or_named(folder, bent, place + " = " + other.dump(), tally);
    }
  }
  return tally;
}

class ForeignJson : public testing::TestWithParam<const char*> {};

TEST_P(ForeignJson, EveryFieldMissingOrOfAnotherKind) {
  json document = fixture(GetParam());
  // Enough of each list for every kind of field.
  if (document.contains("results"))
    while (document["results"].size() > 2) document["results"].erase(2);
  if (document.contains("nvbandwidth"))
    while (document["nvbandwidth"]["testcases"].size() > 3) document["nvbandwidth"]["testcases"].erase(3);
  const Tally tally = damage_every_field(document);
  EXPECT_GT(tally.refused, 20);
  EXPECT_GT(tally.read, 5) << "what amdahl does not use may be anything";
}

INSTANTIATE_TEST_SUITE_P(Fixtures, ForeignJson,
                         testing::Values("nccl_tests_all_reduce.json", "nvbandwidth.json", "published_study_multi.json",
                                         "robocache_single.json", "robocache_multi.json"),
                         [](const auto& tested) {
                           const std::string name = tested.param;
                           return name.substr(0, name.find('.'));
                         });

TEST(ForeignJsonText, RefusalsNameTheKey) {
  const TestFolder folder;
  const auto refused = [&](const char* name, const char* place, const json& value, const std::string& word) {
    json document = fixture(name);
    document[json::json_pointer(place)] = value;
    const std::string path = folder.write("the-file.json", document.dump());
    const Error error = error_of([&] { static_cast<void>(read_measurements(path)); });
    EXPECT_EQ(error.cause(), Cause::usage) << place;
    EXPECT_NE(error.line().find(word), std::string::npos) << word << " in " << error.line();
  };
  const char *nccl = "nccl_tests_all_reduce.json", *nvbandwidth = "nvbandwidth.json";
  refused(nccl, "/args/0", "./build/hypercube_perf", "names the program 'hypercube_perf'");
  refused(nccl, "/config/devices", json::array(), "'config.devices' is empty");
  refused(nccl, "/config/ngpus", 0, "ngpus");
  refused(nccl, "/results", json::array(), "holds no result");
  refused(nccl, "/results/0/out_of_place/time", 0, "results[0].out_of_place.time");
  refused(nvbandwidth, "/nvbandwidth/testcases/0/bandwidth_matrix/0/1", "fast", "bandwidth_matrix[0][1]");
  refused(nvbandwidth, "/nvbandwidth/testcases/0/bandwidth_matrix/0/1", "-5", "a positive number, or N/A");
  refused(nvbandwidth, "/nvbandwidth/testcases/1/bandwidth_matrix/1", {"1"}, "not a row as long as the first");
  refused(nvbandwidth, "/nvbandwidth/testcases/0/bandwidth_description", "in stones", "is 'in stones'");
  refused(nvbandwidth, "/nvbandwidth/GPU Device list/0", "a card", "holds 'a card'");
  refused(nvbandwidth, "/nvbandwidth/error", "no GPU", "says: no GPU");
}

TEST(ForeignJsonText, WhatMeasuresNothingIsLeftOutWithANote) {
  const TestFolder folder;
  json document = fixture("nccl_tests_all_reduce.json");
  const size_t all = read_measurements(folder.write("n.json", document.dump())).records.size();
  for (const char* placement : {"out_of_place", "in_place"}) {
    json& body = document["results"][0][placement];
    body["time"] = body["alg_bw"] = body["bus_bw"] = 0;
  }
  document["results"][0]["size"] = document["results"][0]["count"] = 0;
  const Measurements found = read_measurements(folder.write("n.json", document.dump()));
  EXPECT_EQ(found.records.size(), all - 2);
  ASSERT_FALSE(found.notes.empty());
  EXPECT_NE(found.notes[0].find("1 result of size 0"), std::string::npos) << found.notes[0];
}

TEST(ForeignJsonText, OneRankHasNoBus) {
  const TestFolder folder;
  json document = fixture("nccl_tests_all_reduce.json");
  document["config"]["nthreads"] = document["config"]["ngpus"] = 1;
  document["config"]["devices"].erase(document["config"]["devices"].begin() + 1, document["config"]["devices"].end());
  for (json& row : document["results"])
    for (const char* placement : {"out_of_place", "in_place"}) row[placement]["bus_bw"] = 0;
  const Measurements found = read_measurements(folder.write("n.json", document.dump()));
  ASSERT_FALSE(found.records.empty());
  for (const Record& record : found.records) {
    EXPECT_EQ(std::get<int64_t>(record.axes.at("devices")), 1);
    EXPECT_GT(record.value("algbw").value_or(0), 0);
    EXPECT_FALSE(record.value("busbw"));
  }
}

TEST(ForeignJsonText, NvbandwidthWithoutDevices) {
  const TestFolder folder;
  json document = fixture("nvbandwidth.json");
  const size_t all = read_measurements(folder.write("n.json", document.dump())).records.size();
  document["nvbandwidth"]["GPU Device list"] = nullptr;
  EXPECT_EQ(read_measurements(folder.write("n.json", document.dump())).records.size(), all);
  document["nvbandwidth"].erase("GPU Device list");
  EXPECT_EQ(read_measurements(folder.write("n.json", document.dump())).records.size(), all);
}

json rccl_result(const char* name, int64_t size, int in_place, double time) {
  return {{"numCycle", 0}, {"name", name},    {"nodes", 1},          {"ranks", 2},   {"ranksPerNode", 2},
          {"size", size},  {"type", "float"}, {"redop", "sum"},      {"time", time}, {"gpusPerRank", 1},
          {"algBw", 0.5},  {"busBw", 0.25},   {"inPlace", in_place}, {"wrong", "0"}};
}

TEST(ForeignJsonText, RcclTestsInLinesAndInAList) {
  const TestFolder folder;
  json again = rccl_result("AllReduce", 1024, 0, 12.5), failed = rccl_result("AlltoAll", 64, 0, 9);
  again["numCycle"] = 1;
  failed["wrong"] = 3;
  const json list{rccl_result("AllReduce", 1024, 0, 10.5), rccl_result("AllReduce", 1024, 1, 11), again,
                  rccl_result("AllGather", 0, 0, 3),       rccl_result("HyperCube", 64, 0, 3),    failed};
  std::string lines;
  for (const json& line : list) lines += line.dump() + "\n";
  for (const std::string& text : {lines, list.dump(1)}) {
    const Measurements found = read_measurements(folder.write("r.json", text));
    EXPECT_EQ(found.kind, "collectives");
    EXPECT_TRUE(found.foreign);
    ASSERT_EQ(found.records.size(), 3u);
    const Record& first = found.records[0];
    EXPECT_EQ(std::get<std::string>(first.axes.at("collective")), "all_reduce");
    EXPECT_EQ(std::get<int64_t>(first.axes.at("bytes")), 1024);
    EXPECT_EQ(std::get<int64_t>(first.axes.at("devices")), 2);
    EXPECT_EQ(std::get<std::string>(first.axes.at("dtype")), "f32");
    EXPECT_EQ(std::get<std::string>(first.axes.at("op")), "sum");
    EXPECT_FALSE(std::get<bool>(first.axes.at("in_place")));
    EXPECT_EQ(first.series[0].samples, (std::vector<double>{10.5, 12.5}));  // two cycles
    EXPECT_EQ(found.records[2].status.kind, Status::Kind::failed);
    ASSERT_EQ(found.notes.size(), 2u);
    EXPECT_NE(found.notes[0].find("size of 0"), std::string::npos);
    EXPECT_NE(found.notes[1].find("'HyperCube'"), std::string::npos);
  }
  const Tally tally = damage_every_field(list);
  EXPECT_GT(tally.refused, 20);
}

TEST(ForeignJsonText, NumbersAreThoseOfTheFile) {
  const TestFolder folder;
  const json document = fixture("nccl_tests_all_reduce.json");
  const Measurements found = read_measurements(folder.write("n.json", document.dump()));
  EXPECT_TRUE(found.foreign);
  size_t at = 0;
  for (const json& row : document["results"])
    for (const char* placement : {"out_of_place", "in_place"}) {
      ASSERT_LT(at, found.records.size());
      const Record& record = found.records[at++];
      EXPECT_EQ(record.value("time"), row[placement]["time"].get<double>());
      EXPECT_EQ(record.value("busbw"), row[placement]["bus_bw"].get<double>());
      EXPECT_EQ(std::get<int64_t>(record.axes.at("bytes")), row["size"].get<int64_t>());
      EXPECT_EQ(std::get<bool>(record.axes.at("in_place")), placement == std::string("in_place"));
    }
  EXPECT_EQ(at, found.records.size());
}

TEST(OwnJson, SummariesWithAFieldMissingOrOfAnotherKindAreReadOrRefused) {
  std::vector<Record> records;
  for (const int64_t devices : {1, 2}) test::add_cell(records, {.devices = devices, .num_runs = 3});
  const json document = json::parse(summary_to_json(summarise_study(records)));
  std::vector<std::string> places;
  add_places(document, "", places);
  int refused = 0;
  for (const std::string& place : places)
    for (const json& other : {json(nullptr), json("x"), json(-1.5), json::array(), json::object()}) {
      json bent = document;
      bent[json::json_pointer(place)] = other;
      const Error error = error_of([&] { static_cast<void>(summary_from_json(bent.dump(), "the-file")); });
      if (error.cause() == Cause::internal) {
        EXPECT_EQ(std::string(error.what()), "no error was thrown") << place;
        continue;
      }
      ++refused;
      EXPECT_TRUE(error.cause() == Cause::store_corrupt || error.cause() == Cause::version_refused) << error.line();
      EXPECT_NE(error.line().find("the-file"), std::string::npos) << error.line();
    }
  EXPECT_GT(refused, static_cast<int>(places.size()));
}

}  // namespace
}  // namespace amdahl
