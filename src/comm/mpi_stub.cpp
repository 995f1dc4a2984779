// Replaces mpi_communicator.cpp in a build without MPI.
#include "comm/world.h"

namespace amdahl {
namespace {

constexpr const char* kReason = "built without MPI";
constexpr const char* kRemedy = "install MPI (Debian: libopenmpi-dev) and build again";

}  // namespace

Availability mpi_availability() { return {false, kReason, kRemedy}; }

std::unique_ptr<Communicator> make_mpi_communicator(RendezvousStore&, const std::string&, const RankGroup&, double) {
  throw Error(Cause::environment_missing, std::string("collectives by MPI: ") + kReason, kRemedy);
}

}  // namespace amdahl
