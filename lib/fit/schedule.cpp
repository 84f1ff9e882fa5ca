#include "fit/schedule.hpp"

#include <cmath>

namespace eplb {

double Cooling::factor() const {
    double ratio = last / first;
    for (int halvings = stages; halvings > 1; halvings /= 2) ratio = std::sqrt(ratio);
    return ratio;
}

}  // namespace eplb
