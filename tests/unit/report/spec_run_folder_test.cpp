#include "spec/run_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <regex>

#include "report/study/summary.h"
#include "report_records.h"
#include "spec/json.h"
#include "study_texts.h"

namespace amdahl {
namespace {

namespace fs = std::filesystem;

class SpecRunFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(AMDAHL_BINARY_DIR) / "test-output" / (std::string("run_folder-") + info->name());
    fs::remove_all(root_);
  }

  fs::path run() const { return root_ / "deep" / "run"; }
  std::string text() const { return read_file(run() / kRecordsFile, Cause::internal); }
  void put(const std::string& content) const {
    fs::create_directories(run());
    std::ofstream(run() / kRecordsFile, std::ios::binary) << content;
  }
  // As an earlier version wrote it.
  static std::string without_chain(const std::string& lines) {
    return std::regex_replace(lines, std::regex(",\"chain\":\"[0-9a-f]{16}\""), "");
  }
  static Cause cause_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& e) {
      last_message() = e.line();
      return e.cause();
    }
    last_message() = "nothing was thrown";
    return Cause::internal;
  }
  static std::string& last_message() {
    static std::string message;
    return message;
  }

  fs::path root_;
  RunHeader header_{"study", {{"model", "medium"}, {"runs", "5"}}};
};

TEST_F(SpecRunFolder, WritesAndReadsBack) {
  {
    RunFolder folder = RunFolder::create(run(), header_);
    for (int i = 0; i < 3; ++i) folder.append(test::fake_record({}, i));
    Record other = test::fake_record({}, 3);
    other.provenance.host = "node-2";
    folder.append(other);
    folder.write_text("report.md", "# hello\n");
    folder.end();
    folder.end();  // once
  }
  const RunContents contents = read_run(run());
  EXPECT_EQ(contents.header.kind, "study");
  EXPECT_EQ(contents.header.config, header_.config);
  ASSERT_EQ(contents.records.size(), 4u);
  EXPECT_EQ(contents.provenance.size(), 2u);  // written once each
  EXPECT_EQ(contents.records[2].provenance, test::fake_provenance("cuda"));
  EXPECT_EQ(contents.records[3].provenance.host, "node-2");
  EXPECT_TRUE(contents.notes.empty());
  EXPECT_EQ(contents.complete_bytes, text().size());
  EXPECT_EQ(read_file(run() / "report.md", Cause::internal), "# hello\n");
  EXPECT_EQ(read_records(run() / kRecordsFile).size(), 4u);  // the file itself is accepted too
}

TEST_F(SpecRunFolder, ToleratesATruncatedLastLineAndCutsItOffOnResume) {
  {
    RunFolder folder = RunFolder::create(run(), header_);
    for (int i = 0; i < 3; ++i) folder.append(test::fake_record({}, i));
  }
  const std::string whole = text();
  const size_t last_line = whole.rfind('\n', whole.size() - 2) + 1;
  for (const size_t cut : {whole.size() - 1, whole.size() - 40, last_line + 1}) {
    put(whole.substr(0, cut));
    std::vector<std::string> notes;
    EXPECT_EQ(read_records(run(), &notes).size(), 2u);
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_NE(notes[0].find("records.jsonl:5: the last line is truncated"), std::string::npos) << notes[0];
  }
  {
    RunContents earlier;
    RunFolder folder = RunFolder::resume(run(), header_, &earlier);
    EXPECT_EQ(earlier.records.size(), 2u);
    folder.append(test::fake_record({}, 2));
  }
  EXPECT_EQ(text(), whole);  // byte for byte, the provenance not repeated
}

TEST_F(SpecRunFolder, AnyCutIsEitherReadOrRefusedAsCorrupt) {
  {
    RunFolder folder = RunFolder::create(run(), header_);
    folder.append(test::fake_record({}, 0));
    folder.append(test::fake_record({}, 1));
  }
  const std::string whole = text();
  for (size_t cut = 0; cut < whole.size(); cut += 7) {
    put(whole.substr(0, cut));
    const size_t lines =
        static_cast<size_t>(std::count(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut), '\n'));
    if (lines == 0)
      EXPECT_EQ(cause_of([&] { read_run(run()); }), Cause::store_corrupt);
    else
      EXPECT_EQ(read_records(run()).size(), lines < 2 ? 0 : lines - 2) << "cut at " << cut;
  }
}

TEST_F(SpecRunFolder, CorruptLinesInTheMiddleNameFileAndLine) {
  {
    RunFolder folder = RunFolder::create(run(), header_);
    folder.append(test::fake_record({}, 0));
    folder.append(test::fake_record({}, 1));
  }
  const std::string whole = text();
  std::string damaged = whole;
  damaged[damaged.find("\"type\":\"record\"")] = 'x';
  put(damaged);
  EXPECT_EQ(cause_of([&] { read_run(run()); }), Cause::store_corrupt);
  EXPECT_NE(last_message().find("records.jsonl:3"), std::string::npos) << last_message();

  std::string dangling = whole;
  dangling.replace(dangling.find("\"id\":\"p1\""), 9, "\"id\":\"q1\"");
  put(dangling);
  EXPECT_EQ(cause_of([&] { read_run(run()); }), Cause::store_corrupt);

  std::string newer = whole;
  newer.replace(newer.find("\"version\":1"), 11, "\"version\":2");
  put(newer);
  EXPECT_EQ(cause_of([&] { read_run(run()); }), Cause::version_refused);

  put("{\"type\":\"record\"}\n");
  EXPECT_EQ(cause_of([&] { read_run(run()); }), Cause::store_corrupt);
  EXPECT_EQ(cause_of([&] { read_run(root_ / "nothing"); }), Cause::usage);
}

TEST_F(SpecRunFolder, WhatWasChangedIsNamedByItsLineAndTheLinesBeforeStay) {
  {
    RunFolder folder = RunFolder::create(run(), header_);
    for (int i = 0; i < 4; ++i) folder.append(test::fake_record({}, i));
    folder.end();
  }
  const std::string whole = text();
  std::vector<std::string> lines;  // header, provenance, four records, end
  for (size_t at = 0; at < whole.size(); at = whole.find('\n', at) + 1)
    lines.push_back(whole.substr(at, whole.find('\n', at) + 1 - at));
  ASSERT_EQ(lines.size(), 7u);
  const auto joined = [](const std::vector<std::string>& parts) {
    std::string all;
    for (const std::string& part : parts) all += part;
    return all;
  };
  std::vector<std::string> digit = lines, missing = lines, twice = lines, cut = lines, seed = lines;
  digit[3][digit[3].find("step_time") + 40] ^= 1;
  missing.erase(missing.begin() + 4);
  twice.insert(twice.begin() + 5, lines[4]);
  cut.resize(5);
  seed[1].replace(seed[1].find("\"seed\":42"), 9, "\"seed\":43");
  for (const auto& [damaged, number] : {std::pair{digit, 4}, {missing, 5}, {twice, 6}, {seed, 2}}) {
    put(joined(damaged));
    EXPECT_EQ(cause_of([&] { read_run(run()); }), Cause::store_corrupt);
    EXPECT_NE(last_message().find("records.jsonl:" + std::to_string(number) + ": "), std::string::npos)
        << last_message();
    EXPECT_EQ(cause_of([&] { RunFolder::resume(run(), header_); }), Cause::store_corrupt);
    const std::vector<std::string> before(damaged.begin(), damaged.begin() + number - 1);
    put(joined(before));
    EXPECT_EQ(read_records(run()).size(), static_cast<size_t>(std::max(0, number - 3)));
  }
  std::vector<std::string> notes;
  put(joined(cut));
  EXPECT_EQ(read_records(run(), &notes).size(), 3u);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("no line that ends the run"), std::string::npos) << notes[0];
  put(whole);
  EXPECT_TRUE(read_run(run()).notes.empty());
  RunFolder::resume(run(), header_).append(test::fake_record({}, 4));  // goes on behind its end
  EXPECT_EQ(read_records(run()).size(), 5u);
  end_run(run());
  EXPECT_TRUE(read_run(run()).ended);
  // A run of an earlier version is read and continued as it is.
  put(without_chain(joined({lines.begin(), lines.end() - 1})));
  RunFolder::resume(run(), header_).append(test::fake_record({}, 4));
  EXPECT_EQ(read_records(run()).size(), 5u);
  EXPECT_EQ(text().find("chain"), std::string::npos);
}

TEST_F(SpecRunFolder, UnknownLineTypesAreNotedAndSkipped) {
  { RunFolder::create(run(), header_).append(test::fake_record({}, 0)); }
  put(without_chain(text()) + "{\"type\":\"telemetry\",\"x\":1}\n");
  std::vector<std::string> notes;
  EXPECT_EQ(read_records(run(), &notes).size(), 1u);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("telemetry"), std::string::npos);
}

TEST_F(SpecRunFolder, RefusesASecondRunAnotherConfigAndASecondWriter) {
  {
    RunFolder folder = RunFolder::create(run(), header_);
    EXPECT_EQ(cause_of([&] { RunFolder::create(run(), header_); }), Cause::usage);
    EXPECT_NE(last_message().find("`resume`"), std::string::npos);
    EXPECT_EQ(cause_of([&] { RunFolder::resume(run(), header_); }), Cause::usage);
    EXPECT_NE(last_message().find("another amdahl"), std::string::npos) << last_message();
  }
  RunHeader other = header_;
  other.config["runs"] = "50";
  EXPECT_EQ(cause_of([&] { RunFolder::resume(run(), other); }), Cause::usage);
  EXPECT_NE(last_message().find("runs was \"5\" and is now \"50\""), std::string::npos) << last_message();
  other = header_;
  other.config["extra"] = "1";
  EXPECT_EQ(cause_of([&] { RunFolder::resume(run(), other); }), Cause::usage);
  EXPECT_EQ(cause_of([&] { RunFolder::resume(root_ / "none", header_); }), Cause::usage);
}

TEST_F(SpecRunFolder, RefusesAnUnwritablePathWithARemedy) {
  fs::create_directories(root_);
  std::ofstream(root_ / "file") << "x";
  EXPECT_EQ(cause_of([&] { RunFolder::create(root_ / "file" / "run", header_); }), Cause::usage);
  EXPECT_NE(last_message().find("try: "), std::string::npos) << last_message();
  EXPECT_EQ(cause_of([&] { write_atomic(root_ / "missing" / "x.json", "{}"); }), Cause::usage);
}

TEST_F(SpecRunFolder, NonFiniteRecordsLeaveTheFileAsItWas) {
  RunFolder folder = RunFolder::create(run(), header_);
  folder.append(test::fake_record({}, 0));
  const std::string before = text();
  Record bad = test::fake_record({}, 1);
  bad.series[0].samples = {std::nan("")};
  EXPECT_EQ(cause_of([&] { folder.append(bad); }), Cause::internal);
  EXPECT_EQ(text(), before);
}

// A file size limit makes write() stop short and then fail, as a full disk does.
TEST_F(SpecRunFolder, AFullDiskLosesNothingOfEarlierLines) {
  RunFolder folder = RunFolder::create(run(), header_);
  folder.append(test::fake_record({}, 0));
  const std::string before = text();
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const rlimit tight{before.size() + 100, old_limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  const Cause append_cause = cause_of([&] { folder.append(test::fake_record({}, 1)); });
  const std::string large(before.size() + 200, 'x');
  const Cause atomic_cause = cause_of([&] { folder.write_text("summary.json", large); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(append_cause, Cause::disk_full);
  EXPECT_EQ(atomic_cause, Cause::disk_full);
  EXPECT_EQ(text(), before);
  EXPECT_FALSE(fs::exists(run() / "summary.json"));
  EXPECT_EQ(std::distance(fs::directory_iterator(run()), fs::directory_iterator{}), 1);  // no temporary file left
  folder.append(test::fake_record({}, 1));  // and the run goes on once there is room
  EXPECT_EQ(read_records(run()).size(), 2u);
}

TEST_F(SpecRunFolder, NoSpaceOnTheDeviceIsDiskFull) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full on this system";
  const FileDescriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const int error_number = write_all(full.get(), "x");
  EXPECT_EQ(error_number, ENOSPC);
  EXPECT_EQ(cause_of([&] { throw_write_error("/dev/full", "write", error_number); }), Cause::disk_full);
}

// tests/cli/schema_test.py runs this test and validates the files against docs/schema. It names a folder of its own, so
// that both may run at the same time.
TEST(SpecSampleRun, IsWrittenForTheSchemaTest) {
  const char* name = std::getenv("AMDAHL_TEST_SAMPLE_RUN");
  const fs::path path = fs::path(AMDAHL_BINARY_DIR) / "test-output" / (name ? name : "sample-run");
  fs::remove_all(path);
  RunFolder folder = RunFolder::create(path, {"study", {{"model", "medium"}}});
  const std::vector<Record> records = test::sample_study();
  for (const Record& record : records) folder.append(record);
  const StudySummary summary = summarise_study(records);
  folder.write_text("summary.json", summary_to_json(summary));
  folder.write_text("report.md", test::study_markdown(summary));
  folder.write_text("model.json", model_to_json(find_model_preset("medium")));
  EXPECT_EQ(summary_to_json(summarise_study(read_records(path))), summary_to_json(summary));
}

}  // namespace
}  // namespace amdahl
