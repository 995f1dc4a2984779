#include "report/sensor_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "amdahl/units.h"
#include "report/sensor_results.h"

namespace amdahl {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
  return text;
}

}  // namespace

const DevicePrice* find_price(const PriceTable& prices, const std::string& device) {
  const std::string name = lower(device);
  const DevicePrice* best = nullptr;
  for (const DevicePrice& price : prices.devices)
    if (name.find(lower(price.match)) != std::string::npos && (!best || price.match.size() > best->match.size()))
      best = &price;
  return best;
}

double paid_hours(const PriceTable& prices) {
  return prices.amortisation_months.value_or(0) * kHoursPerMonth * prices.utilisation;
}

std::optional<double> price_of_an_hour(const PriceTable& prices, const DevicePrice& device) {
  if (device.hourly_price) return device.hourly_price;
  if (!device.purchase_price || !prices.amortisation_months) return std::nullopt;
  double price = *device.purchase_price / paid_hours(prices);
  if (prices.electricity_per_kwh) {
    if (!device.watts) return std::nullopt;  // an hour without its electricity would look too cheap
    price += *device.watts / 1000 * *prices.electricity_per_kwh;
  }
  if (!(price > 0)) return std::nullopt;
  return price;
}

std::optional<SensorCost> cost_of(const PriceTable& prices, const std::vector<std::string>& devices, double throughput,
                                  std::vector<std::string>& notes) {
  SensorCost cost;
  double purchase = 0;
  bool all_bought = true;
  for (const std::string& device : devices) {
    const DevicePrice* price = find_price(prices, device);
    if (!price) {
      add_note(notes, fmt::format("{} has no price of '{}': no cost of what it computed; add a [[device]] that matches",
                                  prices.source, printable(device, 60)));
      return std::nullopt;
    }
    const std::optional<double> hour = price_of_an_hour(prices, *price);
    if (!hour) {
      add_note(notes, fmt::format("{}: an hour of '{}' has no price: hourly_price, or purchase_price with "
                                  "amortisation_months and, beside electricity_per_kwh, watts",
                                  prices.source, printable(price->match, 60)));
      return std::nullopt;
    }
    cost.hourly_price += *hour;
    cost.owned = cost.owned || !price->hourly_price;
    purchase += price->purchase_price.value_or(0);
    all_bought = all_bought && price->purchase_price;
  }
  if (devices.empty()) return std::nullopt;
  cost.work_per_price = throughput * kSecondsPerHour / cost.hourly_price;
  if (all_bought) {
    cost.purchase_price = purchase;
    cost.purchase_per_throughput = purchase / throughput;
  }
  return cost;
}

}  // namespace amdahl
