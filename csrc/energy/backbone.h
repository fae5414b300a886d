// rama and omega: energies of phi and psi, and of omega given phi and psi, from tables that
// depend on the residue and on whether a proline follows (TMol: score/backbone_torsion).
//
// Torsions are radians; the means and deviations of omega are degrees.
#pragma once

#include "energy/geometry.h"
#include "energy/spline.h"

namespace tmol_plugin {

// Which tables a block type reads; -1: none. A mirrored one is read at the negated torsions.
struct BackboneTables {
  int32_t rama, omega;
  bool rama_is_mirrored, omega_is_mirrored;
};

struct BackboneView {
  const int32_t* up_connection;  // [n_types] to the residue after
  const uint8_t* is_proline;     // [n_types] of that residue: which tables are read
  const BackboneTables* tables;  // [n_types, 2] before others, before proline
  const AtomId* torsions;        // [n_types, 3, 4] phi, psi, omega
  const float* rama;             // [n_rama, kGrid, kGrid]
  const float* rama_start;       // [n_rama, 2] phi and psi of the first point
  const float* omega;            // [n_omega, kGrid, kGrid, 2] mean, deviation
  const float* omega_start;      // [n_omega, 2]
};

// A block and the one after it share these; `next` is -1 where there is none, and no energy.
template <class S>
struct BackboneEnergies {
  int next;
  S rama, omega;
};

// The values of a table of `n` at phi, psi.
template <class S>
TP_FN void backbone_spline(const float* table, int n, const float* start, S phi, S psi, S* values) {
  const S step = S(float(2 * kPi / kGrid));
  spline(table, n, stencil((phi - start[0]) / step), stencil((psi - start[1]) / step), values);
}

// Without phi and psi, cis and trans are as good as each other.
template <class S>
TP_FN S planar_omega(S omega) {
  if (omega > S(kPi / 2)) {
    omega -= S(kPi);
  } else if (omega < -S(kPi / 2)) {
    omega += S(kPi);
  }
  return S(32.8) * omega * omega;
}

// A normal distribution's; 0 at the mean of one whose deviation is 6 degrees.
template <class S>
TP_FN S trans_omega(S omega, S mean, S deviation) {
  using std::log;
  S offset = omega * S(180 / kPi) - mean;
  if (offset < -180) offset += 360;
  return log(deviation / 6) + offset * offset / (2 * deviation * deviation);
}

template <class S = float>
TP_FN BackboneEnergies<S> backbone_energies(const BlockTypesView& types, const BackboneView& view,
                                            const PoseView& pose, int block) {
  BackboneEnergies<S> found = {-1, 0, 0};
  const int type = pose.block_types[block], up = view.up_connection[type];
  if (up < 0) return found;
  found.next = pose.partner(block, up);
  if (found.next < 0) return found;
  const BackboneTables& tables =
      view.tables[2 * type + view.is_proline[pose.block_types[found.next]]];
  if (tables.rama < 0 && tables.omega < 0) return found;
  const AtomId* ids = view.torsions + 12 * type;
  S phi = 0, psi = 0, omega = 0;
  const bool has_both = measure_torsion(types, pose, block, ids, phi) &&
                        measure_torsion(types, pose, block, ids + 4, psi);
  if (has_both && tables.rama >= 0) {
    const S sign = tables.rama_is_mirrored ? -1 : 1;
    backbone_spline(view.rama + tables.rama * kGrid * kGrid, 1, view.rama_start + 2 * tables.rama,
                    sign * phi, sign * psi, &found.rama);
  }
  if (tables.omega < 0 || !measure_torsion(types, pose, block, ids + 8, omega)) return found;
  const bool is_cis = omega > -S(kPi / 2) && omega < S(kPi / 2);
  if (!has_both || is_cis) {
    found.omega = planar_omega(omega);
  } else {
    const S sign = tables.omega_is_mirrored ? -1 : 1;
    S values[2];
    backbone_spline(view.omega + tables.omega * kGrid * kGrid * 2, 2,
                    view.omega_start + 2 * tables.omega, sign * phi, sign * psi, values);
    found.omega = trans_omega(sign * omega, values[0], values[1]);
  }
  return found;
}

}  // namespace tmol_plugin
