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

/// The row with the longest `match` in the device's name, upper or lower case; null when there is none.
const DevicePrice* find_price(const PriceTable& prices, const std::string& device);

/// Hours of work over which a bought thing is paid off: amortisation_months x kHoursPerMonth x utilisation; 0 without
/// the first.
double paid_hours(const PriceTable& prices);

/// hourly_price, or else purchase_price / paid_hours + watts / 1000 x electricity_per_kwh.
/// Nothing when that lacks a number too.
std::optional<double> price_of_an_hour(const PriceTable& prices, const DevicePrice& device);

/// What `throughput` items/s on these devices cost. Nothing, and a note why, unless each device has a price.
std::optional<SensorCost> cost_of(const PriceTable& prices, const std::vector<std::string>& devices, double throughput,
                                  std::vector<std::string>& notes);

}  // namespace amdahl
