#include "stats/distributions.h"

#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>

namespace amdahl {

double student_t_quantile(double p, double df) { return boost::math::quantile(boost::math::students_t(df), p); }

double student_t_upper_tail(double t, double df) {
  return boost::math::cdf(boost::math::complement(boost::math::students_t(df), t));
}

double normal_quantile(double p) { return boost::math::quantile(boost::math::normal(), p); }

double normal_upper_tail(double z) { return boost::math::cdf(boost::math::complement(boost::math::normal(), z)); }

}  // namespace amdahl
