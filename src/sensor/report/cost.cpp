#include "sensor/report/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "amdahl/error.h"
#include "base/limited_devices.h"
#include "sensor/report/results.h"

namespace amdahl {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
  return text;
}

/// Whether a result can be priced.
bool can_be_priced(const ResultDevices& devices, std::vector<std::string>& notes) {
  if (devices.origin != Origin::measured) {
    add_note(notes, fmt::format("{}: a result on {} has no price: it is not measured on devices that have one",
                                devices.run, counted_devices(devices.names)));
    return false;
  }
  if (static_cast<int64_t>(devices.names.size()) == devices.count) return !devices.names.empty();
  add_note(notes, fmt::format("{}: a result of {} device{} names {} of them: it has no cost", devices.run,
                              devices.count, devices.count == 1 ? "" : "s", devices.names.size()));
  return false;
}

}  // namespace

bool is_in_name(const std::string& part, const std::string& device) {
  return lower(device).find(lower(part)) != std::string::npos;
}

std::vector<std::string> ResultDevices::priced_names() const {
  return kind == "cpu-virtual" ? std::vector<std::string>(names.size(), kind) : names;
}

const DevicePrice* find_price(const PriceTable& prices, const std::string& device) {
  const DevicePrice* best = nullptr;
  for (const DevicePrice& price : prices.devices)
    if (is_in_name(price.match, device) && (!best || price.match.size() > best->match.size())) best = &price;
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
    if (!device.watts) return std::nullopt;  // without electricity the hour would look too cheap
    price += *device.watts / 1000 * *prices.electricity_per_kwh;
  }
  if (!(price > 0)) return std::nullopt;
  return price;
}

std::optional<SensorCost> cost_of(const PriceTable& prices, const ResultDevices& devices, double throughput,
                                  std::vector<std::string>& notes) {
  if (!can_be_priced(devices, notes)) return std::nullopt;
  SensorCost cost;
  double purchase = 0;
  bool all_bought = true;
  for (const std::string& device : devices.priced_names()) {
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
  cost.work_per_price = throughput * kSecondsPerHour / cost.hourly_price;
  if (all_bought) {
    cost.purchase_price = purchase;
    cost.purchase_per_throughput = purchase / throughput;
  }
  return cost;
}

}  // namespace amdahl
