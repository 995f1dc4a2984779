#include "amdahl/sensor_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/philox.h"
#include "files/npz.h"
#include "files/whole_file.h"

namespace amdahl {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// The bytes of a number in a file.
template <class T>
std::string bytes_of(T value, bool big_endian = false) {
  std::string bytes(reinterpret_cast<const char*>(&value), sizeof value);
  if (big_endian) std::reverse(bytes.begin(), bytes.end());
  return bytes;
}

class SensorFiles : public testing::Test {
 protected:
  std::filesystem::path root_ = testing::TempDir() + "amdahl_sensor_files_" + std::to_string(getpid());

  void SetUp() override { std::filesystem::create_directories(root_); }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string write(const std::string& name, std::string_view bytes) const {
    std::ofstream(root_ / name, std::ios::binary) << bytes;
    return root_ / name;
  }
  PointCloud cloud(const std::string& name, std::string_view bytes) const {
    return load_point_cloud(write(name, bytes));
  }
  static std::string read(const std::string& path) { return read_file(path, Cause::usage); }

  /// The line of the error that `act` ends with; the error has the cause, a remedy and all the words.
  template <class Act>
  static std::string refused(Cause cause, const std::vector<std::string>& words, Act&& act) {
    try {
      act();
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), cause) << error.line();
      EXPECT_FALSE(error.remedy().empty()) << error.line();
      for (const std::string& word : words)
        EXPECT_NE(error.line().find(word), std::string::npos) << "'" << word << "' is not in: " << error.line();
      return error.line();
    }
    ADD_FAILURE() << "this was accepted";
    return {};
  }
  void corrupt_cloud(const std::string& name, std::string_view bytes, std::vector<std::string> words) const {
    words.push_back(name);
    refused(Cause::data_corrupt, words, [&] { cloud(name, bytes); });
  }
  void corrupt_trajectories(const std::string& name, std::string_view bytes, std::vector<std::string> words) const {
    words.push_back(name);
    const std::string path = write(name, bytes);
    refused(Cause::data_corrupt, words, [&] { load_trajectories(path); });
  }
  /// Every proper prefix of the file is refused as corrupt, with its name.
  void corrupt_when_cut(const std::string& name, const std::string& bytes, size_t step = 1) const {
    cloud(name, bytes);
    for (size_t length = 0; length < bytes.size(); length += step) {
      SCOPED_TRACE(length);
      corrupt_cloud(name, bytes.substr(0, length), {});
    }
  }
};

std::string npy(const std::string& dictionary, const std::string& elements, char major = 1) {
  const std::string text = dictionary + "\n";
  std::string bytes = std::string("\x93NUMPY") + major + '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) bytes += static_cast<char>(text.size() >> (8 * i));
  return bytes + text + elements;
}

std::string dictionary(const std::string& type, const std::string& shape, const char* fortran = "False") {
  return "{'descr': '" + type + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
}

TEST_F(SensorFiles, KittiKeepsNanAndCountsFromItsSize) {
  std::string bytes;
  for (const float value : {1.5f, -2.0f, 3.25f, 0.5f, kNan, 0.0f, 1e30f, 1.0f}) bytes += bytes_of(value);
  const PointCloud found = cloud("scan.bin", bytes);
  EXPECT_EQ(found.num_points, 2);
  EXPECT_EQ(found.feature_names, std::vector<std::string>{"intensity"});
  EXPECT_EQ(std::vector<float>(found.points.begin(), found.points.begin() + 3), (std::vector<float>{1.5f, -2, 3.25f}));
  EXPECT_TRUE(std::isnan(found.points[3]));
  EXPECT_EQ(found.points[5], 1e30f);
  EXPECT_EQ(found.features, (std::vector<float>{0.5f, 1.0f}));
  EXPECT_EQ(found.rounding, 0);
  for (size_t length = 0; length < 32; ++length)
    if (length % 16 != 0 || length == 0) corrupt_cloud("scan.bin", bytes.substr(0, length), {});
  corrupt_cloud("scan.bin", bytes.substr(0, 17), {"17 bytes", "point 1", "byte 16"});
  corrupt_cloud("scan.bin", "", {"empty"});
}

TEST_F(SensorFiles, NamesThatAreNoCloudAreUsage) {
  refused(Cause::usage, {"scan.pcd", ".bin", ".npy", ".ply"}, [&] { cloud("scan.pcd", "x"); });
  refused(Cause::usage, {"missing.bin", "No such file"}, [&] { load_point_cloud(root_ / "missing.bin"); });
  std::filesystem::create_directories(root_ / "folder.ply");
  refused(Cause::usage, {"folder.ply", "directory"}, [&] { load_point_cloud(root_ / "folder.ply"); });
}

TEST_F(SensorFiles, NpyOfEveryTypeAndOrder) {
  for (const bool big : {false, true}) {
    std::string f4, f8, i2, f2;
    for (const int value : {1, -2, 3, 4, 5, 6, -7, 8}) {
      f4 += bytes_of(static_cast<float>(value), big);
      f8 += bytes_of(static_cast<double>(value), big);
      i2 += bytes_of(static_cast<int16_t>(value), big);
    }
    for (const uint16_t half : {0x3c00, 0xc000, 0x4200, 0x4400, 0x4500, 0x4600, 0xc700, 0x4800})
      f2 += bytes_of(half, big);
    const std::string order = big ? ">" : "<";
    for (const auto& [type, data] : {std::pair{"f4", f4}, {"f8", f8}, {"i2", i2}, {"f2", f2}}) {
      SCOPED_TRACE(order + type);
      const PointCloud c = cloud("a.npy", npy(dictionary(order + type, "(2, 4)"), data));
      EXPECT_EQ(c.points, (std::vector<float>{1, -2, 3, 5, 6, -7}));
      EXPECT_EQ(c.features, (std::vector<float>{4, 8}));
      EXPECT_EQ(c.num_points, 2);
      const PointCloud f = cloud("a.npy", npy(dictionary(order + type, "(2, 4)", "True"), data));
      EXPECT_EQ(f.points, (std::vector<float>{1, 3, 5, -2, 4, 6}));
      EXPECT_EQ(f.features, (std::vector<float>{-7, 8}));
    }
  }
}

TEST_F(SensorFiles, NpyVersionsAndEmptyClouds) {
  const std::string point = bytes_of(1.0f) + bytes_of(2.0f) + bytes_of(3.0f);
  for (const char major : {1, 2, 3})
    EXPECT_EQ(cloud("a.npy", npy(dictionary("<f4", "(1, 3)"), point, major)).num_points, 1);
  EXPECT_EQ(cloud("a.npy", npy("{\"shape\":(1,3),'fortran_order':False,'descr':\"<f4\"}", point)).points[2], 3);
  const PointCloud empty = cloud("a.npy", npy(dictionary("<f4", "(0, 5)"), ""));
  EXPECT_EQ(empty.num_points, 0);
  EXPECT_EQ(empty.num_features, 2);
}

TEST_F(SensorFiles, NpyRoundingOfDoubles) {
  const double easting = 635619.85;
  const PointCloud c =
      cloud("a.npy", npy(dictionary("<f8", "(1, 3)"), bytes_of(easting) + bytes_of(0.0) + bytes_of(0.0)));
  EXPECT_EQ(c.rounding, std::abs(static_cast<double>(static_cast<float>(easting)) - easting));
  EXPECT_GT(c.rounding, 0.001);
}

TEST_F(SensorFiles, NpyThatIsCutOffOrWrong) {
  const std::string point = bytes_of(1.0f) + bytes_of(2.0f) + bytes_of(3.0f);
  const std::string good = npy(dictionary("<f4", "(1, 3)"), point);
  corrupt_when_cut("a.npy", good);
  corrupt_cloud("a.npy", good.substr(0, good.size() - 1), {"12 bytes", "there are 11", "cut off"});
  corrupt_cloud("a.npy", good + "x", {"there are 13"});
  corrupt_cloud("a.npy", "PK\3\4xxxxxxxx", {"byte 0", "not a .npy"});
  corrupt_cloud("a.npy", npy(dictionary("<f4", "(1, 3)"), point, 4), {"version 4"});
  corrupt_cloud("a.npy", npy(dictionary("<f4", "(3,)"), point), {"[3]", "[N, 3 + F]"});
  corrupt_cloud("a.npy", npy(dictionary("<f4", "(1, 1, 3)"), point), {"[1, 1, 3]"});
  corrupt_cloud("a.npy", npy(dictionary("<f4", "(1, 2)"), point.substr(4)), {"[1, 2]"});
  corrupt_cloud("a.npy", npy(dictionary("<c8", "(1, 3)"), point + point), {"'<c8'"});
  corrupt_cloud("a.npy", npy(dictionary("<f3", "(1, 3)"), point), {"'<f3'"});
  corrupt_cloud("a.npy", npy(dictionary("<f4", "(1, -3)"), point), {"size was expected"});
  corrupt_cloud("a.npy", npy("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1, )}", point),
                {"structured"});
  corrupt_cloud("a.npy", npy("{'descr': '<f4', 'shape': (1, 3)}", point), {"fortran_order"});
  corrupt_cloud("a.npy", npy(dictionary("<f4", "(1, 3)") + "junk", point), {"follows"});
  for (const char* shape : {"(4611686018427387904, 4)", "(9223372036854775807, 3)", "(99999999999999999999, 3)"})
    corrupt_cloud("a.npy", npy(dictionary("<f4", shape), point), {});
}

constexpr const char* kAscii =
    "ply\nformat ascii 1.0\ncomment made by hand\nelement face 1\nproperty list uchar int vertex_indices\n"
    "element vertex 3\nproperty double z\nproperty uchar red\nproperty list uchar int rest\nproperty float x\n"
    "property float y\nelement edge 1\nproperty int a\nend_header\n"
    "3 0 1 2\n3 255 2 8 9 1 2\n6.5 0 0 4 5\nnan 7 1 1 -1e3 +8\n5\n";

TEST_F(SensorFiles, PlyAscii) {
  const PointCloud c = cloud("a.ply", kAscii);
  EXPECT_EQ(c.format, "PLY ascii");
  EXPECT_EQ(c.num_points, 3);
  EXPECT_EQ(c.feature_names, std::vector<std::string>{"red"});
  EXPECT_EQ(c.features, (std::vector<float>{255, 0, 7}));
  EXPECT_EQ(std::vector<float>(c.points.begin(), c.points.begin() + 8),
            (std::vector<float>{1, 2, 3, 4, 5, 6.5, -1000, 8}));
  EXPECT_TRUE(std::isnan(c.points[8]));
  std::string crlf;
  for (const char ch : std::string(kAscii)) crlf += ch == '\n' ? "\r\n" : std::string(1, ch);
  EXPECT_EQ(cloud("a.ply", crlf).features, c.features);
}

/// The same cloud in binary.
std::string binary_ply(bool big) {
  std::string bytes = kAscii;
  bytes.resize(bytes.find("end_header\n") + 11);
  bytes.replace(bytes.find("ascii"), 5, big ? "binary_big_endian" : "binary_little_endian");
  const auto list = [&](std::vector<int32_t> items) {
    bytes += static_cast<char>(items.size());
    for (const int32_t item : items) bytes += bytes_of(item, big);
  };
  const auto row = [&](double z, int red, std::vector<int32_t> items, float x, float y) {
    bytes += bytes_of(z, big) + static_cast<char>(red);
    list(std::move(items));
    bytes += bytes_of(x, big) + bytes_of(y, big);
  };
  list({0, 1, 2});
  row(3, 255, {8, 9}, 1, 2);
  row(6.5, 0, {}, 4, 5);
  row(std::numeric_limits<double>::quiet_NaN(), 7, {1}, -1000, 8);
  return bytes + bytes_of(int32_t{5}, big);
}

TEST_F(SensorFiles, PlyBinaryOfBothByteOrders) {
  const PointCloud ascii = cloud("a.ply", kAscii);
  for (const bool big : {false, true}) {
    const PointCloud c = cloud("b.ply", binary_ply(big));
    EXPECT_EQ(c.format, big ? "PLY binary_big_endian" : "PLY binary_little_endian");
    EXPECT_EQ(c.features, ascii.features);
    EXPECT_EQ(c.feature_names, ascii.feature_names);
    for (size_t i = 0; i < 8; ++i) EXPECT_EQ(c.points[i], ascii.points[i]);
    EXPECT_TRUE(std::isnan(c.points[8]));
    corrupt_when_cut("b.ply", binary_ply(big), 3);
    corrupt_cloud("b.ply", binary_ply(big) + "x", {"1 bytes follow"});
  }
}

TEST_F(SensorFiles, PlyAsciiThatIsCutOff) {
  const std::string good = kAscii;
  // Without its last line end the file is whole, and half a number may be a number.
  for (const char* line : {"5\n", "nan 7", "6.5 0", "3 255", "3 0 1", "end_header"})
    corrupt_cloud("a.ply", good.substr(0, good.rfind(line)), {"cut off"});
  corrupt_cloud("a.ply", good.substr(0, good.rfind(" +8")), {"line 18", "too few"});
}

TEST_F(SensorFiles, PlyThatIsWrong) {
  const auto replaced = [](const std::string& from, const std::string& to) {
    std::string text = kAscii;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  corrupt_cloud("a.ply", "", {"empty"});
  corrupt_cloud("a.ply", "plx\n", {"line 1", "not a PLY"});
  corrupt_cloud("a.ply", std::string(100000, 'p'), {"line 1", "not a PLY"});
  corrupt_cloud("a.ply", replaced("ascii", "utf8"), {"line 2", "format"});
  corrupt_cloud("a.ply", replaced("element vertex 3", "element point 3"), {"no element 'vertex'"});
  corrupt_cloud("a.ply", replaced("float y", "float v"), {"lacks x, y or z"});
  corrupt_cloud("a.ply", replaced("float y", "float red"), {"line 11", "second property 'red'"});
  corrupt_cloud("a.ply", replaced("double z", "quad z"), {"line 7", "'quad'"});
  corrupt_cloud("a.ply", replaced("vertex 3", "vertex three"), {"line 6", "'three'"});
  corrupt_cloud("a.ply", replaced("vertex 3", "vertex 4"), {});
  corrupt_cloud("a.ply", replaced("vertex 3", "vertex 2"), {"line 18"});
  corrupt_cloud("a.ply", replaced("vertex 3", "vertex 18446744073709551615"), {"cut off"});
  corrupt_cloud("a.ply", replaced("6.5", "six"), {"line 17", "'six'"});
  corrupt_cloud("a.ply", replaced("3 255 2 8", "3 255 -2 8"), {"line 16", "-2 items"});
  corrupt_cloud("a.ply", replaced("3 255 2 8", "3 255 1e300 8"), {"line 16"});
  std::string bytes = binary_ply(false);
  bytes.replace(bytes.find("vertex 3"), 8, "vertex 1000000000000000000");
  corrupt_cloud("b.ply", bytes, {"cut off"});
}

TEST_F(SensorFiles, TheRealScan) {
  const PointCloud scan = load_point_cloud(AMDAHL_SOURCE_DIR "/data/vlp16.ply");
  EXPECT_EQ(scan.num_points, 22591);
  EXPECT_EQ(scan.feature_names, std::vector<std::string>{"intensity"});
  EXPECT_EQ(scan.rounding, 0);
  double farthest = 0;
  for (size_t i = 0; i < scan.points.size(); i += 3)
    farthest = std::max(farthest, std::hypot(scan.points[i], scan.points[i + 1], scan.points[i + 2]) + 0.0);
  EXPECT_NEAR(farthest, 108.346, 0.001);
  EXPECT_EQ(*std::max_element(scan.features.begin(), scan.features.end()), 100);
}

TEST_F(SensorFiles, ArraysComeBack) {
  std::vector<float> values(3 * 5);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = philox_uniform(philox(7, static_cast<uint32_t>(i), 0, 0, 0).v[0]);
  const std::string path = root_ / "a.npy";
  save_array(path, {"", FileElement::f32, {3, 5}, values.data()});
  const std::string bytes = read(path);
  EXPECT_EQ((bytes.size() - values.size() * 4) % 64, 0u);
  const PointCloud c = load_point_cloud(path);
  ASSERT_EQ(c.num_points, 3);
  for (size_t i = 0; i < 3; ++i) {
    for (size_t axis = 0; axis < 3; ++axis) EXPECT_EQ(c.points[i * 3 + axis], values[i * 5 + axis]);
    for (size_t f = 0; f < 2; ++f) EXPECT_EQ(c.features[i * 2 + f], values[i * 5 + 3 + f]);
  }
  const NpyArray one = parse_npy(npy_header({"", FileElement::u32, {2}, nullptr}) + std::string(8, '\0'), "one");
  EXPECT_EQ(one.shape, std::vector<int64_t>{2});
  const NpyArray scalar = parse_npy(npy_header({"", FileElement::f64, {}, nullptr}) + bytes_of(2.5), "scalar");
  double found = 0;
  for_each_element(scalar, [&](double value) { found += value; });
  EXPECT_EQ(found, 2.5);
  refused(Cause::usage, {".npy"}, [&] { save_array(root_ / "a.txt", {"", FileElement::f32, {1}, values.data()}); });
  refused(Cause::usage, {"nowhere"}, [&] {
    save_array(root_ / "nowhere/a.npy", {"", FileElement::f32, {1}, values.data()});
  });
  refused(Cause::usage, {"-1"}, [&] { save_array(path, {"", FileElement::f32, {-1}, values.data()}); });
  refused(Cause::usage, {"cannot be"}, [&] {
    save_array(path, {"", FileElement::f32, {1LL << 40, 1LL << 40}, nullptr});
  });
}

class NpzFiles : public SensorFiles {
 protected:
  void SetUp() override {
    if (!npz_availability().ok) GTEST_SKIP() << npz_availability().reason;
    SensorFiles::SetUp();
  }
  std::vector<float> f_ = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  std::vector<double> t_ = {1.7e9, 1.7e9 + 0.25, 1.7e9 + 0.5, 5, 6, 7};

  FileArray floats(const std::string& name, std::vector<int64_t> shape) {
    return {name, FileElement::f32, shape, f_.data()};
  }
  FileArray times(const std::string& name, std::vector<int64_t> shape) {
    return {name, FileElement::f64, shape, t_.data()};
  }
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

TEST_F(SensorFiles, CsvColumns) {
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

TEST_F(SensorFiles, CsvBatches) {
  const auto load = [&](std::string_view text) { return load_trajectories(write("t.csv", text)).at(0); };
  const Trajectories t = load("t,episode,v\n0,b,1\n1,b,2\n0,a,3\n0.5,a,4\n");
  EXPECT_EQ(t.batch, 2);
  EXPECT_EQ(t.length, 2);
  EXPECT_EQ(t.times, (std::vector<double>{0, 1, 0, 0.5}));
  EXPECT_EQ(t.values, (std::vector<float>{1, 2, 3, 4}));
  corrupt_trajectories("t.csv", "t,episode,v\n0,b,1\n1,b,2\n0,a,3\n", {"'b' has 2", "'a' has 1"});
}

TEST_F(SensorFiles, CsvThatIsWrong) {
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
