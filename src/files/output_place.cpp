#include "files/output_place.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "amdahl/error.h"

namespace amdahl {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // the kernel's limit

OutputPlace refused(const fs::path& path, std::string reason, std::string remedy = "the name of a file") {
  OutputPlace place;
  place.kind = OutputPlace::Kind::refused;
  place.path = path;
  place.reason = std::move(reason);
  place.remedy = std::move(remedy);
  return place;
}

/// The descriptor that /dev/stdout, /dev/fd/N and /proc/self/fd/N refer to; -1 for other paths. Reopening such a path
/// would start at the first byte of a file, and fails for sockets.
int descriptor_of(const fs::path& path) {
  constexpr size_t kMostDigits = 9;
  const std::string name = path.filename().string();
  const bool number = !name.empty() && name.size() <= kMostDigits &&
                      std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!number) return -1;
  std::error_code error;
  const fs::path own = fs::canonical("/proc/self/fd", error);
  if (error || fs::canonical(path.parent_path(), error) != own || error) return -1;
  return std::stoi(name);
}

OutputPlace place_at(const fs::path& path) {
  struct stat status {};
  OutputPlace place;
  place.path = path;
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return place;
    return refused(path, std::strerror(errno), "a path in a folder that you may write");
  }
  if (S_ISDIR(status.st_mode)) return refused(path, "this is a folder");
  if (S_ISBLK(status.st_mode)) return refused(path, "this is a block device");
  if (S_ISSOCK(status.st_mode)) return refused(path, "this is a socket");
  constexpr mode_t kPermissions = 07777;
  place.kind = S_ISREG(status.st_mode) ? OutputPlace::Kind::file : OutputPlace::Kind::stream;
  place.permissions = status.st_mode & kPermissions;
  return place;
}

}  // namespace

// Resolves links by hand: the last link may point to a file that does not exist yet, and /proc/self/fd/1 to an unnamed
// file.
OutputPlace output_place(const fs::path& name) {
  fs::path path = name;
  for (int links = 0; links <= kMostLinks; ++links) {
    if (const int descriptor = descriptor_of(path); descriptor >= 0) {
      OutputPlace place;
      place.kind = OutputPlace::Kind::descriptor;
      place.path = path;
      place.descriptor = descriptor;
      return place;
    }
    std::error_code error;
    const fs::path target = fs::read_symlink(path, error);
    if (error) return place_at(path);
    path = target.is_absolute() ? target : path.parent_path() / target;
  }
  return refused(name, std::strerror(ELOOP));
}

Availability writable(const OutputPlace& place) {
  const auto no = [](std::string reason, std::string remedy) {
    return Availability{false, std::move(reason), std::move(remedy)};
  };
  if (place.kind == OutputPlace::Kind::refused) return no(place.reason, place.remedy);
  if (place.kind == OutputPlace::Kind::descriptor) {
    const int flags = ::fcntl(place.descriptor, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) return no("this is not open for writing", "another file");
    return {true, {}, {}};
  }
  if (place.kind == OutputPlace::Kind::stream) {
    if (::access(place.path.c_str(), W_OK) != 0) return no(std::strerror(errno), "another file");
    return {true, {}, {}};
  }
  const fs::path folder = place.path.has_parent_path() ? place.path.parent_path() : fs::path(".");
  std::error_code error;
  if (!fs::is_directory(folder, error))
    return no(fmt::format("there is no folder {}", printable(folder.string())),
              "make the folder first, or another name");
  if (::access(folder.c_str(), W_OK) != 0)
    return no(fmt::format("cannot write into {}", printable(folder.string())), "another folder");
  struct stat status {};
  if (::lstat(place.path.c_str(), &status) != 0 && errno != ENOENT)  // a name that is too long
    return no(std::strerror(errno), "another name");
  return {true, {}, {}};
}

}  // namespace amdahl
