#include "report/fabric/drawings.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/fabric/link_figures.h"
#include "report/fabric/topology.h"

namespace amdahl {

std::string links_heat_map(const MachineSpec& machine) {
  constexpr int kCell = 72, kMargin = 90, kTop = 64;
  double most = 0;
  for (const LinkSpec& link : machine.links) most = std::max(most, link.measured_gbps);
  if (most <= 0) return {};
  const int count = static_cast<int>(machine.devices.size());
  const int width = kMargin + count * kCell + 20, height = kTop + count * kCell + 50;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"13\">\n<title>Copy bandwidth between devices, GB/s</title>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n"
      "<text x=\"{2}\" y=\"24\" font-size=\"15\">Copy engine, one direction, GB/s: row to column</text>\n",
      width, height, 16);
  const auto position = [&](int index) {
    for (int i = 0; i < count; ++i)
      if (machine.devices[static_cast<size_t>(i)].index == index) return i;
    return 0;
  };
  for (int i = 0; i < count; ++i) {
    const std::string label = device_label(machine.devices[static_cast<size_t>(i)]);
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", kMargin + i * kCell + kCell / 2,
                       kTop - 10, label);
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", kMargin - 10,
                       kTop + i * kCell + kCell / 2 + 5, label);
  }
  for (const LinkSpec& link : machine.links) {
    if (link.measured_gbps <= 0) continue;
    const double part = link.measured_gbps / most;
    const int shade = static_cast<int>(245 - 175 * part);
    const bool slow = is_slow(link, 0);
    const int x = kMargin + position(link.destination) * kCell, y = kTop + position(link.source) * kCell;
    svg += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"rgb({},{},245)\"{}/>\n"
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"{}\">{:.0f}</text>\n",
        x + 2, y + 2, kCell - 4, kCell - 4, shade, shade, slow ? " stroke=\"#c00000\" stroke-width=\"4\"" : "",
        x + kCell / 2, y + kCell / 2 + 5, part > 0.5 ? "#ffffff" : "#000000", link.measured_gbps);
  }
  return svg + fmt::format(
                   "<text x=\"16\" y=\"{}\" fill=\"#444444\">red outline: below 90 % of the expected "
                   "bandwidth</text>\n</svg>\n",
                   height - 18);
}

}  // namespace amdahl
