// The few functions beyond + - * / and sqrt that decisions need, from exactly those: the C library's give other last
// bits on other machines.
#pragma once

namespace eplb {

// Natural logarithm of a finite x >= 1e-300, relative error below 1e-15.
double natural_log(double x);

// x^(quarters / 4) for x >= 0 and quarters >= 0, from products and square roots.
double quarter_power(double x, int quarters);

}  // namespace eplb
