#include "setup/temporary_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "amdahl/error.h"

namespace amdahl {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "amdahl-temporary-";
constexpr size_t kLetters = 6;  // that mkdtemp adds

fs::path parent_of(const std::map<std::string, std::string>& environment) {
  const auto set = environment.find("TMPDIR");
  return set == environment.end() || set->second.empty() ? "/tmp" : set->second;
}

/// Opens and locks a folder of this user; not open when that is impossible, or another process holds it.
FileDescriptor lock_folder(const fs::path& path) {
  FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  const bool own = folder.get() >= 0 && ::fstat(folder.get(), &status) == 0 && status.st_uid == ::geteuid();
  if (!own || ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) return FileDescriptor();
  return folder;
}

/// Those that nobody holds were left by processes that were killed.
void remove_abandoned(const fs::path& parent) {
  std::error_code error;
  for (auto entry = fs::directory_iterator(parent, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kPrefix) || name.size() != kPrefix.size() + kLetters) continue;
    const FileDescriptor folder = lock_folder(entry->path());
    std::error_code ignored;
    if (folder.get() >= 0) fs::remove_all(entry->path(), ignored);
  }
}

}  // namespace

TemporaryFolder::TemporaryFolder(const std::map<std::string, std::string>& environment)
    : TemporaryFolder(parent_of(environment)) {}

TemporaryFolder::TemporaryFolder(const fs::path& parent) {
  remove_abandoned(parent);
  // Another process may take a folder for abandoned before it is locked.
  constexpr int kMostTries = 100;
  const std::string pattern = (parent / kPrefix).string() + std::string(kLetters, 'X');
  for (int tries = 0; tries < kMostTries; ++tries) {
    std::string name = pattern;
    if (!mkdtemp(name.data()))
      throw Error(Cause::usage, fmt::format("no folder can be made as {}: {}", name, std::strerror(errno)),
                  "TMPDIR=a folder that can be written");
    path_ = name;
    lock_ = lock_folder(path_);
    std::error_code error;
    if (lock_.get() >= 0 && fs::exists(path_, error)) return;
    if (errno != EWOULDBLOCK && fs::exists(path_, error)) return;  // a file system without locks
  }
  throw Error(Cause::usage, fmt::format("no folder can be kept as {}", pattern), "TMPDIR=another folder");
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace amdahl
