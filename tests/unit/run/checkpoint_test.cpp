// Checkpoint files: round trips, every changed bit and every cut is refused, and which files a folder keeps.
#include "train/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "errors.h"
#include "files/whole_file.h"

namespace amdahl {
namespace {

namespace fs = std::filesystem;

Checkpoint checkpoint_at(int64_t step) {
  Checkpoint checkpoint;
  checkpoint.point = {step, 3, step % 10, {0.1, 1.0 / 3}};
  checkpoint.identity = {{"model", "odd"}, {"seed", "42"}};
  checkpoint.weights = {{"layers.0.weight", {2, 2}, {1, 2, 3, static_cast<float>(step)}},
                        {"layers.0.bias", {2}, {5, 6}}};
  checkpoint.state = {{"adam.m/layers.0.weight", {2, 2}, {0.5f, 0, -0.0f, 1e-38f}}};
  return checkpoint;
}

std::string file_of(const Checkpoint& checkpoint) {
  std::vector<std::string> storage;
  std::string bytes;
  for (const std::string_view piece : checkpoint_pieces(checkpoint, storage)) bytes += piece;
  return bytes;
}

void expect_equal(const Checkpoint& a, const Checkpoint& b) {
  EXPECT_EQ(point_text(a.point), point_text(b.point));
  EXPECT_EQ(a.point.epoch_losses, b.point.epoch_losses);
  EXPECT_EQ(a.identity, b.identity);
  for (const auto& [one, other] : {std::pair{&a.weights, &b.weights}, {&a.state, &b.state}}) {
    ASSERT_EQ(one->size(), other->size());
    for (size_t i = 0; i < one->size(); ++i) {
      EXPECT_EQ((*one)[i].name, (*other)[i].name);
      EXPECT_EQ((*one)[i].shape, (*other)[i].shape);
      EXPECT_EQ((*one)[i].values, (*other)[i].values);
    }
  }
}

TEST(CheckpointFile, ReadWhatWasWritten) {
  const Checkpoint checkpoint = checkpoint_at(123);
  expect_equal(parse_checkpoint(file_of(checkpoint), "c"), checkpoint);
  const TrainingPoint point = point_from_text(point_text(checkpoint.point));
  EXPECT_EQ(point.step, 123);
  EXPECT_EQ(point.epoch_losses, checkpoint.point.epoch_losses);  // without rounding
}

TEST(CheckpointFile, RefusesEveryFlippedBit) {
  const std::string bytes = file_of(checkpoint_at(7));
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    const Error error = error_of([&] { parse_checkpoint(changed, "c.safetensors"); });
    ASSERT_EQ(error.cause(), Cause::data_corrupt) << "bit " << bit;
    ASSERT_NE(std::string(error.what()).find("c.safetensors"), std::string::npos);
  }
  std::string changed = bytes;
  changed[changed.size() - 20] ^= 1;  // of the last tensor, before the digest of 8 bytes
  const Error error = error_of([&] { parse_checkpoint(changed, "c"); });
  EXPECT_NE(std::string(error.what()).find("tensor 'adam.m/layers.0.weight' was changed"), std::string::npos)
      << error.line();
}

TEST(CheckpointFile, RefusesEveryCut) {
  const std::string bytes = file_of(checkpoint_at(7));
  for (size_t size = 0; size < bytes.size(); ++size)
    ASSERT_EQ(error_of([&] { parse_checkpoint(bytes.substr(0, size), "c"); }).cause(), Cause::data_corrupt) << size;
}

TEST(CheckpointFile, NamesTheDifferencesOfAnotherTraining) {
  const std::map<std::string, std::string> saved{{"model", "medium"}, {"seed", "42"}, {"rows", "10"}};
  EXPECT_NO_THROW(require_same_training("c", saved, {{"model", "medium"}, {"rows", "10"}}));
  const Error error = error_of([&] { require_same_training("c", saved, {{"model", "large"}, {"seed", "42"}}); });
  EXPECT_EQ(error.cause(), Cause::usage);
  EXPECT_NE(std::string(error.what()).find("model was 'medium' and is now 'large'"), std::string::npos);
  EXPECT_EQ(std::string(error.what()).find("seed"), std::string::npos);
}

class CheckpointFolders : public testing::Test {
 protected:
  const fs::path path_ = testing::TempDir() + "amdahl_checkpoints_" + std::to_string(getpid());
  CheckpointFolder folder_{path_};
  std::vector<std::string> warnings_;

  void TearDown() override { fs::remove_all(path_); }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  std::optional<CheckpointFolder::Loaded> load() {
    warnings_.clear();
    return folder_.load([this](const std::string& line) { warnings_.push_back(line); });
  }
  void damage(const char* name) const {
    std::string bytes = read_file(path_ / name, Cause::usage);
    bytes[bytes.size() - 20] ^= 4;
    std::ofstream(path_ / name, std::ios::binary) << bytes;
  }
};

TEST_F(CheckpointFolders, KeepTheLastTwo) {
  EXPECT_FALSE(folder_.has_any());
  EXPECT_FALSE(load());
  for (const int64_t step : {5, 10, 15, 20}) folder_.save(checkpoint_at(step));
  EXPECT_EQ(files(), (std::vector<std::string>{"step-000000015.safetensors", "step-000000020.safetensors"}));
  const auto loaded = load();
  ASSERT_TRUE(loaded);
  EXPECT_TRUE(warnings_.empty());
  expect_equal(loaded->checkpoint, checkpoint_at(20));
}

TEST_F(CheckpointFolders, UseThePreviousOneWithAWarning) {
  for (const int64_t step : {5, 10}) folder_.save(checkpoint_at(step));
  damage("step-000000010.safetensors");
  const auto loaded = load();
  ASSERT_TRUE(loaded);
  expect_equal(loaded->checkpoint, checkpoint_at(5));
  ASSERT_EQ(warnings_.size(), 1u);
  for (const char* words : {"step-000000010.safetensors", "was changed", "step 5 is used"})
    EXPECT_NE(warnings_[0].find(words), std::string::npos) << warnings_[0];
  // The training goes on from step 5: what it writes next replaces the damaged future.
  folder_.save(checkpoint_at(8));
  EXPECT_EQ(files(), (std::vector<std::string>{"step-000000005.safetensors", "step-000000008.safetensors"}));
}

TEST_F(CheckpointFolders, RefuseWhenAllAreDamaged) {
  for (const int64_t step : {5, 10}) folder_.save(checkpoint_at(step));
  damage("step-000000010.safetensors");
  std::ofstream(path_ / "step-000000005.safetensors", std::ios::binary) << "half";
  const Error error = error_of([&] { load(); });
  EXPECT_EQ(error.cause(), Cause::data_corrupt);
  EXPECT_NE(std::string(error.what()).find("step-000000005.safetensors"), std::string::npos) << error.line();
}

TEST_F(CheckpointFolders, RefuseAFileUnderAnotherStepsName) {
  folder_.save(checkpoint_at(5));
  fs::rename(path_ / "step-000000005.safetensors", path_ / "step-000000006.safetensors");
  EXPECT_EQ(error_of([&] { load(); }).cause(), Cause::data_corrupt);
}

TEST_F(CheckpointFolders, HaveOneWriter) {
  folder_.lock();  // there is no folder yet
  folder_.save(checkpoint_at(5));
  {
    CheckpointFolder other(path_);
    for (const Error& error : {error_of([&] { other.lock(); }), error_of([&] { other.save(checkpoint_at(9)); })}) {
      EXPECT_EQ(error.cause(), Cause::usage);
      EXPECT_NE(std::string(error.what()).find("another training writes"), std::string::npos) << error.what();
    }
    EXPECT_TRUE(other.load([](const std::string&) {})) << "reading takes no lock";
  }
  folder_.save(checkpoint_at(10));
  EXPECT_EQ(files(), (std::vector<std::string>{"step-000000005.safetensors", "step-000000010.safetensors"}));
}

TEST_F(CheckpointFolders, CountFilesAlone) {
  folder_.save(checkpoint_at(5));
  ASSERT_EQ(mkfifo((path_ / "step-000000009.safetensors").c_str(), 0600), 0);
  fs::create_directory(path_ / "step-000000008.safetensors");
  fs::create_symlink("nowhere", path_ / "step-000000007.safetensors");
  const auto loaded = load();
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->checkpoint.point.step, 5);
}

TEST_F(CheckpointFolders, RemoveWhatKilledWritersLeft) {
  fs::create_directories(path_);
  std::ofstream(path_ / "step-000000003.safetensors.tmp99") << "half";
  std::ofstream(path_ / "notes.txt") << "mine";
  EXPECT_FALSE(folder_.has_any());
  folder_.save(checkpoint_at(5));
  EXPECT_EQ(files(), (std::vector<std::string>{"notes.txt", "step-000000005.safetensors"}));
}

TEST_F(CheckpointFolders, RemoveWhatAWriterLeftThatWasKilledBeforeItRemovedTheOldest) {
  for (const int64_t step : {10, 15}) folder_.save(checkpoint_at(step));
  fs::copy_file(path_ / "step-000000010.safetensors", path_ / "step-000000005.safetensors");
  std::ofstream(path_ / "step-000000020.safetensors", std::ios::binary) << "damaged";
  std::ofstream(path_ / "step-000000020.safetensors.tmp7") << "half";
  folder_.remove_leftovers(15);
  // The damaged one is removed with the next checkpoint, not before.
  EXPECT_EQ(files(), (std::vector<std::string>{"step-000000010.safetensors", "step-000000015.safetensors",
                                               "step-000000020.safetensors"}));
}

}  // namespace
}  // namespace amdahl
