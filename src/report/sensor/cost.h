// From a price table and throughput to work per money. Speedups have no place here: a price buys work, not a ratio.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/prices.h"
#include "amdahl/sensor_comparison.h"

namespace amdahl {

inline constexpr double kSecondsPerHour = 3600;
inline constexpr double kHoursPerMonth = 730.5;  // 365.25 days of 24 hours, over 12

/// Whether that is part of a device's name, upper or lower case.
bool is_in_name(const std::string& part, const std::string& device);

/// The row with the longest `match` in the device's name, upper or lower case; null when there is none.
const DevicePrice* find_price(const PriceTable& prices, const std::string& device);

/// Hours of work over which a bought thing is paid off: amortisation_months x kHoursPerMonth x utilisation; 0 without
/// the first.
double paid_hours(const PriceTable& prices);

/// hourly_price, or else purchase_price / paid_hours + watts / 1000 x electricity_per_kwh.
/// Nothing when that lacks a number too.
std::optional<double> price_of_an_hour(const PriceTable& prices, const DevicePrice& device);

/// The devices of a result, which is named by its run.
struct ResultDevices {
  std::string run;
  int64_t count = 1;
  std::vector<std::string> names;
  std::string kind;
  Origin origin = Origin::measured;

  /// What the rows of a price table are matched with.
  std::vector<std::string> priced_names() const;
};

/// What `throughput` items/s on these devices cost. Nothing, and a note why, unless it was measured on them, all are
/// named and each has a price: a stand-in for a device is never priced.
std::optional<SensorCost> cost_of(const PriceTable& prices, const ResultDevices& devices, double throughput,
                                  std::vector<std::string>& notes);

}  // namespace amdahl
