// Built without libzip: .npz files can be neither read nor written.
#include "files/npz.h"

namespace amdahl {
namespace {

[[noreturn]] void refuse(const std::string& path) {
  const Availability availability = npz_availability();
  throw Error(Cause::environment_missing, path + ": .npz files need libzip: " + availability.reason,
              availability.remedy + "; or use .npy and CSV files");
}

}  // namespace

Availability npz_availability() {
  return {false, "built without libzip", "apt-get install libzip-dev, then configure again"};
}
std::string npz_version() { return {}; }
std::vector<NpzEntry> read_npz(const std::string& path) { refuse(path); }
void write_npz(const std::string& path, const std::vector<FileArray>&) { refuse(path); }

}  // namespace amdahl
