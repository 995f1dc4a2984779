#include "amdahl/error.h"
#include "files/gzip.h"

namespace amdahl {
namespace {

[[noreturn]] void refuse(const char* remedy) {
  throw Error(Cause::environment_missing, "compressed files need zlib, which this build does not have", remedy);
}

}  // namespace

std::string gzip(std::string_view) { refuse("a name that ends in .json, or install zlib1g-dev and build again"); }

std::string gunzip(std::string_view, const std::string&, Cause, size_t) {
  refuse("gunzip of the file, or install zlib1g-dev and build again");
}

}  // namespace amdahl
