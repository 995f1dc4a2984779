// Symmetric memory between processes of one host: a POSIX shared memory segment with the regions of all ranks.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "symmetric/symmetric_memory.h"

namespace amdahl {
namespace {

/// Owns a file descriptor.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

[[noreturn]] void fail(Cause cause, const std::string& name, const char* call, int code) {
  throw Error(cause, fmt::format("shared memory {}: {}: {}", name, call, std::strerror(code)),
              cause == Cause::out_of_memory ? "more room in /dev/shm, or fewer bytes"
                                            : "ranks on one host, all started before the deadline");
}

}  // namespace

SymmetricMemory map_segment(const std::string& name, const Team& team, size_t bytes, double timeout_seconds,
                            bool create) {
  check_team(team);
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (bytes > SIZE_MAX / 2 / kMaxTeamRanks) fail(Cause::out_of_memory, name, "mmap", ENOMEM);
  const size_t region = (std::max<size_t>(bytes, 1) + page - 1) / page * page;
  const size_t all = region * static_cast<size_t>(team.size());
  const Descriptor file{shm_open(name.c_str(), create ? O_RDWR | O_CREAT | O_EXCL : O_RDWR, S_IRUSR | S_IWUSR)};
  if (file.number < 0) fail(Cause::environment_missing, name, "shm_open", errno);
  // Allocated in advance, because a store into a page that /dev/shm cannot hold raises SIGBUS.
  if (const int code = create ? posix_fallocate(file.number, 0, static_cast<off_t>(all)) : 0; code != 0) {
    shm_unlink(name.c_str());
    fail(Cause::out_of_memory, name, "posix_fallocate", code);
  }
  struct stat status {};
  if (fstat(file.number, &status) != 0) fail(Cause::environment_missing, name, "fstat", errno);
  if (static_cast<size_t>(status.st_size) != all)
    throw Error(Cause::collective_mismatch,
                fmt::format("shared memory {}: {} bytes are wanted, it has {}", name, all, status.st_size),
                "the same size on every rank");
  void* start = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_SHARED, file.number, 0);
  if (start == MAP_FAILED) fail(Cause::out_of_memory, name, "mmap", errno);
  SymmetricMemory memory;
  memory.owners.emplace_back(start, [all](void* mapped) { munmap(mapped, all); });
  memory.team = team;
  memory.bytes = bytes;
  memory.timeout_seconds = timeout_seconds;
  for (int rank = 0; rank < team.size(); ++rank)
    memory.base.push_back(static_cast<char*>(start) + static_cast<size_t>(rank) * region);
  return memory;
}

void unlink_segment(const std::string& name) noexcept { shm_unlink(name.c_str()); }

}  // namespace amdahl
