// fa_lk: how much of the solvation of one atom another takes away (Lazaridis & Karplus 1999).
//
// Angstrom; TMol's energy units. As TMol (score/ljlk/potentials/lk_isotropic.hh): constant at
// short distance, then a cubic, the analytic form, and a cubic that ends in zero at `max_dis`.
#pragma once

#include "energy/lj.h"
#include "energy/scalar.h"
#include "energy/vec3.h"

namespace tmol_plugin {

// Of an atom type. Where the last cubic starts: the energy and its rise over that cubic, per
// volume of the atom that takes solvation away.
struct LKType {
  float volume, radius;
  float coefficient;  // -free energy / (2 pi^1.5 lambda)
  float inverse_lambda_sq;
  float fade_value, fade_rise;
  float unused[2];
};

// Of a pair of atom types. Up to `plateau_end` the energy is `plateau`; a cubic follows that
// reaches the analytic form at `analytic_start`, with its value and slope.
struct LKPair {
  float plateau_end, analytic_start;
  struct Direction {
    float plateau, value, slope;
  } of_first, of_second;  // whose solvation is taken away
};

// The analytic form: per volume of the atom that takes solvation away.
template <class S>
TP_FN S lk_analytic(S dist, S radius, S coefficient, S inverse_lambda_sq) {
  const S beyond = dist - radius, inverse = S(1) / dist;
  return coefficient * inverse * inverse * exponential(-beyond * beyond * inverse_lambda_sq);
}

// Below `analytic_start` of the pair.
template <class S>
TP_FN S lk_close(S dist, S plateau_end, S analytic_start, S plateau, S value, S slope) {
  const S width = analytic_start - plateau_end;
  const S t = max(S(0), (dist - plateau_end) / width), rise = slope * width;
  const S step = value - plateau;
  return plateau + t * t * (S(3) * step - rise + t * (rise - S(2) * step));
}

}  // namespace tmol_plugin
