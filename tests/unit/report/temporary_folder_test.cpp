// Folders for a while: each is its process's, and those of killed processes are removed by the next.
#include "setup/temporary_folder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "temporary_folder.h"

namespace amdahl {
namespace {

namespace fs = std::filesystem;

/// A process that has a temporary folder in `parent`, until it is killed.
pid_t process_with_folder(const fs::path& parent) {
  int ready[2];
  EXPECT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const TemporaryFolder folder(parent);
    std::ofstream(folder.path() / "file") << "content";
    [[maybe_unused]] const ssize_t written = write(ready[1], "x", 1);
    for (;;) pause();
  }
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  close(ready[1]);
  return child;
}

size_t folders_in(const fs::path& parent) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(parent), fs::directory_iterator()));
}

TEST(TemporaryFolder, ThoseOfKilledProcessesAreRemoved) {
  const TestFolder parent;
  fs::create_directory(parent.path() / "amdahl-temporary-of-a-user");
  std::ofstream(parent.path() / "amdahl-temporary-abcdef") << "a file";
  const pid_t lives = process_with_folder(parent.path()), dies = process_with_folder(parent.path());
  EXPECT_EQ(folders_in(parent.path()), 4u);
  kill(dies, SIGKILL);
  waitpid(dies, nullptr, 0);
  {
    const TemporaryFolder own(parent.path());
    EXPECT_TRUE(fs::is_directory(own.path()));
    EXPECT_EQ(folders_in(parent.path()), 4u) << "the dead one's is gone, the others are there";
    const TemporaryFolder second(parent.path());
    EXPECT_TRUE(fs::is_directory(own.path())) << "of this process";
  }
  EXPECT_EQ(folders_in(parent.path()), 3u);
  kill(lives, SIGKILL);
  waitpid(lives, nullptr, 0);
  const TemporaryFolder last(parent.path());
  EXPECT_EQ(folders_in(parent.path()), 3u) << "a user's folder, a file, and this one's";
}

}  // namespace
}  // namespace amdahl
