// fa_elec: Coulomb energy of two charges, with a dielectric that grows with distance.
//
// Angstrom, elementary charges; TMol's energy units. As TMol (score/elec/potentials/
// potentials.hh): shifted to zero at `max_dis`, flat below `min_dis`, cubics about both. What
// lies between the cubics is, for speed, a polynomial that is fitted when tables are made; of
// two unit charges it is within 1e-5 of the formula.
#pragma once

#include "energy/scalar.h"
#include "energy/vec3.h"

namespace tmol_plugin {

struct ElecGlobals {
  static constexpr int kDegree = 11;
  float min_dis, max_dis;
  float coefficients[kDegree + 1];  // constant first, of distances scaled to -1 to 1
  // Energies and slopes of two unit charges where the cubics end.
  float flat, low, low_slope, high, high_slope;
};

// Half the width of the cubic about min_dis, and the width of that before max_dis.
inline constexpr float kElecLowHalfWidth = 0.25f, kElecHighWidth = 1.0f;

// Of two unit charges: multiply by both. `dist` is at most max_dis.
template <class S>
TP_FN S elec_energy(S dist, const ElecGlobals& globals) {
  const float low_end = globals.min_dis + kElecLowHalfWidth;
  const float high_start = globals.max_dis - kElecHighWidth;

  const float half_range = (high_start - low_end) / 2, middle = (high_start + low_end) / 2;
  const S x = (dist - S(middle)) * S(1 / half_range);
  // Pairs of terms, then pairs of pairs: a sum from term to term would wait for each.
  const float* const c = globals.coefficients;
  const auto pair = [&](int i) { return S(c[i]) + x * S(c[i + 1]); };
  const S x_2 = x * x, x_4 = x_2 * x_2;
  static_assert(ElecGlobals::kDegree == 11);
  S energy = (pair(0) + x_2 * pair(2)) +
             x_4 * ((pair(4) + x_2 * pair(6)) + x_4 * (pair(8) + x_2 * pair(10)));

  const float rise = globals.high_slope * kElecHighWidth;
  const S u = (dist - S(high_start)) * S(1 / kElecHighWidth);
  const S high =
      S(globals.high) +
      u * (S(rise) + u * (S(-2 * rise - 3 * globals.high) + u * S(rise + 2 * globals.high)));
  energy = select(dist < S(high_start), energy, high);

  const auto is_low = dist < S(low_end);
  if (!any_of(is_low)) return energy;
  const float width = 2 * kElecLowHalfWidth, low_rise = globals.low_slope * width;
  const float drop = globals.low - globals.flat;
  const S t = max(S(0), (dist - S(low_end - width)) * S(1 / width));
  const S low = S(globals.flat) + t * t * (S(3 * drop - low_rise) + t * S(low_rise - 2 * drop));
  return select(is_low, low, energy);
}

}  // namespace tmol_plugin
