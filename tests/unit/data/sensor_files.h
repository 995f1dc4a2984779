// Files of clouds and trajectories in a folder of the test's, and the errors of bad ones.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/sensor.h"
#include "files/whole_file.h"

namespace amdahl {

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

}  // namespace amdahl
