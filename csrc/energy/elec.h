// fa_elec: Coulomb energy of two charges, with a dielectric that grows with distance.
//
// Angstrom, elementary charges; TMol's energy units. As TMol (score/elec/potentials/
// potentials.hh): shifted to zero at `max_dis`, flat below `min_dis`, cubics about both.
#pragma once

#include "energy/scalar.h"
#include "energy/vec3.h"

namespace tmol_plugin {

// Values and slopes at the ends of the three parts, of two unit charges.
struct ElecGlobals {
  float die_d, die_d0, die_s;  // dielectric far away, at no distance, and its steepness
  float min_dis, max_dis;
  float offset;  // what the energy at max_dis would be
  float flat, low, low_slope, high, high_slope;
};

inline constexpr float kCoulomb = 322.0637f;  // angstrom * energy / charge^2

// Of two unit charges: multiply by both.
template <class S>
TP_FN S elec_energy(S dist, const ElecGlobals& globals) {
  const float low_start = globals.min_dis - 0.25f, low_end = globals.min_dis + 0.25f;
  const float high_start = globals.max_dis - 1.0f;

  const S r = dist * S(globals.die_s);
  const S dielectric = S(globals.die_d) - S(0.5f * (globals.die_d - globals.die_d0)) *
                                              (S(2) + S(2) * r + r * r) * exponential(-r);
  const S middle = S(kCoulomb) / (max(dist, S(low_start)) * dielectric) - S(globals.offset);

  const float low_width = low_end - low_start, low_rise = globals.low_slope * low_width;
  const float drop = globals.low - globals.flat;
  const S t = max(S(0), dist - S(low_start)) * S(1 / low_width);
  const S low = S(globals.flat) + t * t * (S(3 * drop - low_rise) + t * S(low_rise - 2 * drop));

  const float high_rise = globals.high_slope;  // over one angstrom
  const S u = dist - S(high_start);
  const S high = S(globals.high) + u * (S(high_rise) + u * (S(-2 * high_rise - 3 * globals.high) +
                                                            u * S(high_rise + 2 * globals.high)));

  const S energy = select(dist < S(low_end), low, select(dist < S(high_start), middle, high));
  return select(dist < S(globals.max_dis), energy, S(0));
}

}  // namespace tmol_plugin
