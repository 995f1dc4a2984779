// Clouds and arrays in files.
#include "sensor_files.h"

#include <cmath>
#include <limits>

#include "base/philox.h"
#include "files/npz.h"
#include "special_floats.h"

namespace amdahl {
namespace {

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
  save_array(path, {"", DType::f32, {3, 5}, values.data()});
  const std::string bytes = read(path);
  EXPECT_EQ((bytes.size() - values.size() * 4) % 64, 0u);
  const PointCloud c = load_point_cloud(path);
  ASSERT_EQ(c.num_points, 3);
  for (size_t i = 0; i < 3; ++i) {
    for (size_t axis = 0; axis < 3; ++axis) EXPECT_EQ(c.points[i * 3 + axis], values[i * 5 + axis]);
    for (size_t f = 0; f < 2; ++f) EXPECT_EQ(c.features[i * 2 + f], values[i * 5 + 3 + f]);
  }
  const NpyArray one = parse_npy(npy_header({"", DType::u32, {2}, nullptr}) + std::string(8, '\0'), "one");
  EXPECT_EQ(one.shape, std::vector<int64_t>{2});
  const NpyArray scalar = parse_npy(npy_header({"", DType::f64, {}, nullptr}) + bytes_of(2.5), "scalar");
  double found = 0;
  for_each_element(scalar, [&](double value) { found += value; });
  EXPECT_EQ(found, 2.5);
  refused(Cause::usage, {".npy"}, [&] { save_array(root_ / "a.txt", {"", DType::f32, {1}, values.data()}); });
  refused(Cause::usage, {"nowhere"}, [&] {
    save_array(root_ / "nowhere/a.npy", {"", DType::f32, {1}, values.data()});
  });
  refused(Cause::usage, {"-1"}, [&] { save_array(path, {"", DType::f32, {-1}, values.data()}); });
  refused(Cause::usage, {"cannot be"}, [&] { save_array(path, {"", DType::f32, {1LL << 40, 1LL << 40}, nullptr}); });
}

}  // namespace
}  // namespace amdahl
