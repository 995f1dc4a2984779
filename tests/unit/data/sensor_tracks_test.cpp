// Trajectories in .npz and .csv files.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "files/npz.h"
#include "sensor_files.h"

namespace amdahl {
namespace {

class NpzFiles : public SensorFiles {
 protected:
  void SetUp() override {
    if (!npz_availability().ok) GTEST_SKIP() << npz_availability().reason;
    SensorFiles::SetUp();
  }
  std::vector<float> f_ = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  std::vector<double> t_ = {1.7e9, 1.7e9 + 0.25, 1.7e9 + 0.5, 5, 6, 7};

  FileArray floats(const std::string& name, std::vector<int64_t> shape) { return {name, DType::f32, shape, f_.data()}; }
  FileArray times(const std::string& name, std::vector<int64_t> shape) { return {name, DType::f64, shape, t_.data()}; }
  std::vector<Trajectories> loaded(const std::vector<FileArray>& arrays) {
    save_arrays(root_ / "s.npz", arrays);
    return load_trajectories(root_ / "s.npz");
  }
  void corrupt(const std::vector<FileArray>& arrays, std::vector<std::string> words) {
    words.push_back("s.npz");
    refused(Cause::data_corrupt, words, [&] { loaded(arrays); });
  }
};

TEST_F(NpzFiles, OneStream) {
  const std::vector<Trajectories> one = loaded({times("times", {3}), floats("values", {3, 4})});
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].name, "");
  EXPECT_EQ(one[0].times, (std::vector<double>{1.7e9, 1.7e9 + 0.25, 1.7e9 + 0.5}));
  EXPECT_EQ(one[0].values, f_);
  const std::vector<Trajectories> shared = loaded({floats("data", {2, 3, 2}), times("times", {3})});
  ASSERT_EQ(shared[0].batch, 2);
  EXPECT_EQ(shared[0].length, 3);
  EXPECT_EQ(shared[0].width, 2);
  EXPECT_EQ(shared[0].times, (std::vector<double>{t_[0], t_[1], t_[2], t_[0], t_[1], t_[2]}));
  EXPECT_EQ(loaded({floats("data", {2, 3, 2}), times("times", {2, 3})})[0].times, t_);
}

TEST_F(NpzFiles, SeveralStreamsInTheirOrder) {
  const auto streams = loaded({floats("gyro", {3, 2}), times("arm_times", {3}), times("gyro_times", {3}),
                               floats("arm", {3}), floats("rate", {1})});
  ASSERT_EQ(streams.size(), 2u);
  EXPECT_EQ(streams[0].name, "gyro");
  EXPECT_EQ(streams[0].width, 2);
  EXPECT_EQ(streams[1].name, "arm");
  EXPECT_EQ(streams[1].width, 1);
}

TEST_F(NpzFiles, WhatIsNoStream) {
  corrupt({floats("a", {3, 2})}, {"a_times"});
  corrupt({times("a_times", {3})}, {"a_times", "no values"});
  corrupt({times("times", {3})}, {"times", "no values"});
  corrupt({floats("rate", {1})}, {"no stream"});
  corrupt({times("times", {2}), floats("values", {3, 2})}, {"[2]", "[3, 2]"});
  corrupt({times("times", {2, 3}), floats("values", {3, 2})}, {"[2, 3]", "[3, 2]"});
  corrupt({times("times", {3}), floats("values", {1, 3, 2, 2})}, {"[1, 3, 2, 2]"});
  corrupt({times("times", {0}), floats("values", {0, 2})}, {"no sample"});
  corrupt({times("times", {3}), floats("values", {3, 2}), floats("data", {3, 2})}, {"both"});
  t_[1] = std::numeric_limits<double>::infinity();
  corrupt({times("times", {3}), floats("values", {3, 2})}, {"sample 1", "not finite"});
  t_[1] = t_[0] - 1;
  corrupt({times("times", {3}), floats("values", {3, 2})}, {"trajectory 0, sample 1", "below"});
}

TEST_F(NpzFiles, ValuesSayWhatTheyLoseAsFloats) {
  std::vector<double> wide{47.3977418, 0.5, 47.3977419, 0.25, 47.3977420, 0.75};
  const std::vector<Trajectories> streams = loaded({times("times", {3}), {"values", DType::f64, {3, 2}, wide.data()}});
  ASSERT_EQ(streams[0].warnings.size(), 1u);
  EXPECT_NE(streams[0].warnings[0].find("value 0: values change by up to 1"), std::string::npos)
      << streams[0].warnings[0];
  EXPECT_TRUE(loaded({times("times", {3}), floats("values", {3, 4})})[0].warnings.empty());
}

TEST_F(NpzFiles, CutOffOrBentFiles) {
  loaded({times("times", {3}), floats("values", {3, 4})});
  const std::string good = read(root_ / "s.npz");
  for (size_t length = 0; length < good.size(); length += 3) {
    SCOPED_TRACE(length);
    corrupt_trajectories("cut.npz", good.substr(0, length), {});
  }
  std::string bent = good;
  bent[good.find(bytes_of(f_[5]))] ^= 1;  // only the checksum tells
  corrupt_trajectories("bent.npz", bent, {"values.npy", "CRC"});
  corrupt_trajectories("no.npz", "this is text", {"not a whole .npz"});
  refused(Cause::usage, {"nothing.npz"}, [&] { load_trajectories(root_ / "nothing.npz"); });
  refused(Cause::usage, {"nowhere"}, [&] { save_arrays(root_ / "nowhere/a.npz", {floats("a", {1})}); });
  refused(Cause::usage, {"'a'"}, [&] { save_arrays(root_ / "two.npz", {floats("a", {1}), floats("a", {1})}); });
}

using CsvFiles = SensorFiles;

TEST_F(CsvFiles, Columns) {
  const auto load = [&](std::string_view text) { return load_trajectories(write("t.csv", text)).at(0); };
  const Trajectories named = load("x,Time,label,y\n1,10.5,a,2\n3,11.5,b,nan\n");
  EXPECT_EQ(named.times, (std::vector<double>{10.5, 11.5}));
  EXPECT_EQ(named.names, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(named.skipped, std::vector<std::string>{"label"});
  EXPECT_EQ(named.values[2], 3);
  EXPECT_TRUE(std::isnan(named.values[3]));
  const Trajectories first = load("a;b\r\n0;2\r\n0.25;1\r\n");
  EXPECT_EQ(first.times, (std::vector<double>{0, 0.25}));
  EXPECT_EQ(first.values, (std::vector<float>{2, 1}));
  const Trajectories bare = load("0,1\n1,2\n");
  EXPECT_EQ(bare.length, 2);
  EXPECT_EQ(bare.names, std::vector<std::string>{"c1"});
}

TEST_F(CsvFiles, Batches) {
  const auto load = [&](std::string_view text) { return load_trajectories(write("t.csv", text)).at(0); };
  const Trajectories t = load("t,episode,v\n0,b,1\n1,b,2\n0,a,3\n0.5,a,4\n");
  EXPECT_EQ(t.batch, 2);
  EXPECT_EQ(t.length, 2);
  EXPECT_EQ(t.times, (std::vector<double>{0, 1, 0, 0.5}));
  EXPECT_EQ(t.values, (std::vector<float>{1, 2, 3, 4}));
  corrupt_trajectories("t.csv", "t,episode,v\n0,b,1\n1,b,2\n0,a,3\n", {"'b' has 2", "'a' has 1"});
}

TEST_F(CsvFiles, ThatIsWrong) {
  corrupt_trajectories("t.csv", "", {"empty"});
  corrupt_trajectories("t.csv", "t,x\n", {"no rows"});
  corrupt_trajectories("t.csv", "t,x\n0,1\n1\n", {"line 3", "1 fields"});
  corrupt_trajectories("t.csv", "t,x\n0,1\n1,1e39\n", {"line 3, column 2 'x'", "1e39", "range"});
  corrupt_trajectories("t.csv", "t,x\n0,1\n1,two\n", {"line 3, column 2 'x'", "'two'"});
  corrupt_trajectories("t.csv", "t,x\n0,1\n1,\n", {"line 3, column 2 'x'"});
  corrupt_trajectories("t.csv", "t,x\n0,\n1,2\n", {"line 2, column 2 'x'"});
  corrupt_trajectories("t.csv", "t,x\n0,1\nnan,1\n", {"line 3", "not finite"});
  corrupt_trajectories("t.csv", "t,x\n0,1\n2,1\n1,1\n", {"line 4", "below"});
  corrupt_trajectories("t.csv", "t,x\n0,a\n", {"no column of values"});
  corrupt_trajectories("t.csv", std::string_view("t,x\n0,1\n\0", 9), {"line 3", "NUL"});
  refused(Cause::usage, {"t.parquet", ".npz", ".csv"}, [&] { load_trajectories(root_ / "t.parquet"); });
}

// The time is found by its name in any unit and spelling, wherever it stands.
TEST_F(CsvFiles, TimeColumnsByName) {
  const auto time_of = [&](const std::string& header, const std::string& rows = "5,0,3\n4,1,7\n") {
    return load_trajectories(write("t.csv", header + "\n" + rows)).at(0).time_name;
  };
  for (const char* name : {"time",
                           "Time",
                           "t",
                           "TIMESTAMP",
                           "time_s",
                           "t_ns",
                           "time [s]",
                           "timestamp(us)",
                           "Timestamp (ms)",
                           "stamp.sec",
                           "%time",
                           "#timestamp [ns]",
                           "ts",
                           "t.sec",
                           "timestamp_seconds",
                           "timestampNs",
                           "date_time",
                           "gps_time",
                           "header.stamp",
                           "rosbagTimestamp",
                           "unixtime",
                           "seconds",
                           "epoch"})
    EXPECT_EQ(time_of(std::string("x,") + name + ",y"), std::string(name)) << name;
  // No name says it: the only column that rises.
  const Trajectories rising = load_trajectories(write("t.csv", "x,a,y\n5,0,3\n4,1,7\n6,2,1\n")).at(0);
  EXPECT_EQ(rising.time_name, "a");
  ASSERT_EQ(rising.warnings.size(), 1u);
  EXPECT_NE(rising.warnings[0].find("'a' is taken as the time"), std::string::npos) << rising.warnings[0];
  EXPECT_TRUE(load_trajectories(write("t.csv", "x,t\n5,0\n4,1\n")).at(0).warnings.empty());
}

TEST_F(CsvFiles, TimeColumnsThatAreUnsure) {
  const auto unsure = [&](const std::string& bytes, const std::vector<std::string>& words) {
    const std::string path = write("t.csv", bytes);
    refused(Cause::usage, words, [&] { load_trajectories(path); });
  };
  unsure("time,timestamp,x\n0,0,1\n1,1,2\n", {"2 columns can be the time: time, timestamp", "`time_column`"});
  unsure("stamp.sec,stamp.nanosec,x\n0,0,1\n0,5,2\n", {"stamp.sec, stamp.nanosec"});
  unsure("gps_time,utc_time,x\n0,0,1\n1,1,2\n", {"gps_time, utc_time"});
  unsure("a,b,x\n0,0,1\n1,1,0\n", {"2 columns can be the time: a, b"});
  unsure("a,b\n2,1\n1,0\n", {"no column", "a, b"});
  SensorFileOptions options;
  options.time_column = "timestamp";
  const std::string path = write("t.csv", "time,timestamp,x\n0,5,1\n1,6,2\n");
  EXPECT_EQ(load_trajectories(path, options).at(0).times, (std::vector<double>{5, 6}));
  options.time_column = "stamp";
  refused(Cause::usage, {"no column 'stamp'", "time, timestamp"}, [&] { load_trajectories(path, options); });
  const std::string dates = write("t.csv", "time,x\n2020-01-01,1\n2020-01-02,2\n");
  refused(Cause::data_corrupt, {"line 2, column 1 'time'", "'2020-01-01' is no time"},
          [&] { load_trajectories(dates); });
}

TEST_F(CsvFiles, ColumnTypesComeFromAllRows) {
  corrupt_trajectories("t.csv", "t,x,y\n0,NA,1\n1,2,3\n2,3,4\n", {"line 2, column 2 'x'", "'NA' is a missing value"});
  corrupt_trajectories("t.csv", "t,x,y\n0,-,1\n1,2,3\n2,3,4\n", {"line 2, column 2 'x'", "'-'"});
  corrupt_trajectories("t.csv", "t,x,y\n0,,1\n1,2,3\n2,3,4\n", {"line 2, column 2 'x'", "a missing value"});
  SensorFileOptions options;
  options.missing = "drop";
  options.missing_values = {"-"};
  const Trajectories kept = load_trajectories(write("t.csv", "t,x,y\n0,-,1\n1,2,3\n2,3,4\n"), options).at(0);
  EXPECT_EQ(kept.times, (std::vector<double>{1, 2}));
  EXPECT_EQ(kept.names, (std::vector<std::string>{"x", "y"}));
  EXPECT_TRUE(std::isnan(load_trajectories(write("t.csv", "t,x\n0,nan\n1,2\n")).at(0).values[0]));
}

TEST_F(CsvFiles, OtherDelimitersAndSpellings) {
  const Trajectories tum =
      load_trajectories(write("t.txt", "# a comment\n1305031449.80 0 0 1\n1305031449.81 1 2 1\n")).at(0);
  EXPECT_EQ(tum.times, (std::vector<double>{1305031449.80, 1305031449.81}));
  EXPECT_EQ(tum.values, (std::vector<float>{0, 0, 1, 1, 2, 1}));
  const Trajectories named = load_trajectories(write("t.txt", "# x timestamp y\n1 5 2\n3 6 4\n")).at(0);
  EXPECT_EQ(named.time_name, "timestamp");
  EXPECT_EQ(named.names, (std::vector<std::string>{"x", "y"}));
  const Trajectories commas = load_trajectories(write("t.csv", "sep=;\nzeit_t;x;time\n0,5;1,25;0\n1;2,5;0,1\n")).at(0);
  EXPECT_EQ(commas.times, (std::vector<double>{0, 0.1}));
  EXPECT_EQ(commas.values, (std::vector<float>{0.5f, 1.25f, 1, 2.5f}));
  EXPECT_EQ(commas.warnings.size(), 3u);
  corrupt_trajectories("t.csv", std::string("\xFF\xFEt\0", 4), {"UTF-16", "iconv"});
}

// The loss is warned of where it can be seen beside the steps of the values, in the unit of the file.
TEST_F(CsvFiles, ValuesSayWhatTheyLoseAsFloats) {
  const auto warnings = [&](double offset, double step) {
    std::string text = "t,x\n";
    for (int i = 0; i < 50; ++i) text += fmt::format("{},{:.10f}\n", i, offset + step * i);
    return load_trajectories(write("t.csv", text)).at(0).warnings;
  };
  EXPECT_EQ(warnings(0, 0.1).size(), 0u);
  EXPECT_EQ(warnings(100, 0.1).size(), 0u);
  EXPECT_EQ(warnings(5e6, 1).size(), 0u);  // whole numbers are floats
  for (const auto& [offset, step] : {std::pair{47.3977418, 1e-7}, {5261234.567, 1.1}, {1.7e9, 0.05}, {4e6, 30.01}}) {
    const std::vector<std::string> lost = warnings(offset, step);
    ASSERT_EQ(lost.size(), 1u) << offset;
    EXPECT_NE(lost[0].find("column 'x': values change by up to "), std::string::npos) << lost[0];
    EXPECT_NE(lost[0].find(fmt::format("differ by about {:.3g}", step)), std::string::npos) << lost[0];
  }
}

}  // namespace
}  // namespace amdahl
