// Replaces gloo_communicator.cpp in a build without Gloo.
#include "comm/world.h"

namespace amdahl {
namespace {

constexpr const char* kReason = "built without Gloo";
constexpr const char* kRemedy = "install Gloo (Debian: libgloo-dev) and build again";

}  // namespace

Availability gloo_availability() { return {false, kReason, kRemedy}; }

std::unique_ptr<Communicator> make_gloo_communicator(RendezvousStore&, const std::string&, const RankGroup&, double) {
  throw Error(Cause::environment_missing, std::string("collectives between processes: ") + kReason, kRemedy);
}

}  // namespace amdahl
