// Loads what terms over torsions read: ids of atoms, and splines through tables.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cpu/separations.h"
#include "energy/spline.h"

namespace tmol_plugin {

// The atoms of torsions, `n_torsions` of 4 for each block type; throws if an id names an atom or
// a connection that the block type has not.
std::vector<AtomId> torsion_atoms(const Arrays& arrays, const BlockTypes& types,
                                  const std::string& name, int n_torsions);

// Turns values into the coefficients of the periodic spline through them, in the direction in
// which neighbours are `stride` apart: `values` is [.., kGrid, stride].
void fit_spline(std::span<double> values, size_t stride);

}  // namespace tmol_plugin
