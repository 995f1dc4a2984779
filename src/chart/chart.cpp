#include "chart/chart.h"

namespace amdahl {

std::string origin_word(Origin origin) {
  switch (origin) {
    case Origin::measured:
      return "measured";
    case Origin::emulated:
      return "emulated";
    case Origin::modelled:
      break;
  }
  return "modelled";
}

}  // namespace amdahl
