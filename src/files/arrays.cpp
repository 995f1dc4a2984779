#include <fmt/format.h>

#include "files/npz.h"
#include "files/output_place.h"
#include "files/whole_file.h"

namespace amdahl {
namespace {

void require_ending(const std::string& path, std::string_view ending) {
  if (!path.ends_with(ending) && !output_place(path).is_stream())
    throw Error(Cause::usage, fmt::format("'{}' does not end in {}", path, ending),
                fmt::format("a name like out{}", ending));
}

}  // namespace

void save_array(const std::string& path, const FileArray& array) {
  require_ending(path, ".npy");
  write_atomic(path, {npy_header(array), {static_cast<const char*>(array.data), num_bytes(array)}});
}

void save_arrays(const std::string& path, const std::vector<FileArray>& arrays) {
  require_ending(path, ".npz");
  write_npz(path, arrays);
}

}  // namespace amdahl
