// Trajectories in .npz and .csv files.
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
  const Trajectories first = load("a;b\r\n0;1\r\n0.25;2\r\n");
  EXPECT_EQ(first.times, (std::vector<double>{0, 0.25}));
  EXPECT_EQ(first.values, (std::vector<float>{1, 2}));
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
  corrupt_trajectories("t.csv", "t,x\n", {"line 2"});
  corrupt_trajectories("t.csv", "t,x\n0,1\n1\n", {"line 3", "1 fields"});
  corrupt_trajectories("t.csv", "t,x\n0,1\n1,two\n", {"line 3, column 2 'x'", "'two'"});
  corrupt_trajectories("t.csv", "t,x\n0,1\n1,\n", {"line 3, column 2 'x'"});
  corrupt_trajectories("t.csv", "t,x\n0,\n1,2\n", {"line 2, column 2 'x'"});
  corrupt_trajectories("t.csv", "t,x\nnan,1\n", {"line 2", "not finite"});
  corrupt_trajectories("t.csv", "t,x\n0,1\n2,1\n1,1\n", {"line 4", "below"});
  corrupt_trajectories("t.csv", "t,x\n0,a\n", {"no column of values"});
  corrupt_trajectories("t.csv", std::string_view("t,x\n0,1\n\0", 9), {"line 3", "NUL"});
  refused(Cause::usage, {"t.parquet", ".npz", ".csv"}, [&] { load_trajectories(root_ / "t.parquet"); });
}

}  // namespace
}  // namespace amdahl
