#include "topology/pci_isolation.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace amdahl {
namespace {

namespace fs = std::filesystem;

constexpr size_t kExtendedCapabilities = 0x100;
constexpr unsigned kAcsCapability = 0x000d;
constexpr size_t kAcsControl = 6;  // offset within the capability
constexpr unsigned kRequestRedirect = 1 << 2, kCompletionRedirect = 1 << 3;

std::vector<unsigned char> read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

uint32_t word_at(const std::vector<unsigned char>& bytes, size_t at, size_t count) {
  uint32_t value = 0;
  for (size_t i = 0; i < count; ++i) value |= static_cast<uint32_t>(bytes[at + i]) << (8 * i);
  return value;
}

bool redirects(const std::vector<unsigned char>& space) {
  size_t at = kExtendedCapabilities;
  for (int hops = 0; hops < 64 && at >= kExtendedCapabilities && at + 8 <= space.size(); ++hops) {
    const uint32_t header = word_at(space, at, 4);
    if ((header & 0xffff) == kAcsCapability)
      return (word_at(space, at + kAcsControl, 2) & (kRequestRedirect | kCompletionRedirect)) != 0;
    at = header >> 20;  // offset of the next capability; 0: last one
  }
  return false;
}

}  // namespace

std::string read_iommu(const std::string& sysfs) {
  std::error_code error;
  const fs::path root(sysfs);
  if (!fs::is_directory(root / "class", error)) return {};
  if (fs::is_empty(root / "class" / "iommu", error) || error) return "off";
  for (const fs::directory_entry& group : fs::directory_iterator(root / "kernel" / "iommu_groups", error)) {
    std::string type;
    std::ifstream(group.path() / "type") >> type;
    if (!type.empty() && type != "identity") return "translated";
  }
  return "passthrough";
}

std::vector<std::string> redirecting_bridges(const std::string& sysfs, const std::vector<std::string>& bridges) {
  std::vector<std::string> found;
  for (const std::string& bridge : bridges)
    if (redirects(read_bytes(fs::path(sysfs) / "bus" / "pci" / "devices" / bridge / "config"))) found.push_back(bridge);
  return found;
}

}  // namespace amdahl
