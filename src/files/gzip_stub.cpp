#include "amdahl/error.h"
#include "files/gzip.h"

namespace amdahl {

std::string gzip(std::string_view) {
  throw Error(Cause::environment_missing, "compressed files need zlib, which this build does not have",
              "a name that ends in .json, or install zlib1g-dev and build again");
}

}  // namespace amdahl
