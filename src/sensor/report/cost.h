// Computes work per unit of money from throughput and a price table. Speedups are not used: a price buys work, not a
// ratio.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/comparison.h"
#include "amdahl/report.h"

namespace amdahl {

inline constexpr double kSecondsPerHour = 3600;
inline constexpr double kHoursPerMonth = 730.5;  // 365.25 days of 24 hours, over 12

/// Whether `part` occurs in the device's name, ignoring case.
bool is_in_name(const std::string& part, const std::string& device);

/// The row with the longest `match` contained in the device's name, ignoring case; null when there is none.
const DevicePrice* find_price(const PriceTable& prices, const std::string& device);

/// Working hours over which a purchase is amortised: amortisation_months x kHoursPerMonth x utilisation; 0 without
/// amortisation_months.
double paid_hours(const PriceTable& prices);

/// hourly_price; without it, purchase_price / paid_hours + watts / 1000 x electricity_per_kwh. nullopt when a number of
/// that formula is missing too.
std::optional<double> price_of_an_hour(const PriceTable& prices, const DevicePrice& device);

/// The devices of a result, and the name of its run.
struct ResultDevices {
  std::string run;
  int64_t count = 1;
  std::vector<std::string> names;
  std::string kind;
  Origin origin = Origin::measured;

  /// The names that are matched against the rows of a price table.
  std::vector<std::string> priced_names() const;
};

/// Cost of `throughput` items/s on these devices. nullopt, and a note with the reason, unless it was measured on these
/// devices, all are named and each has a price: an emulated device is never priced.
std::optional<SensorCost> cost_of(const PriceTable& prices, const ResultDevices& devices, double throughput,
                                  std::vector<std::string>& notes);

}  // namespace amdahl
