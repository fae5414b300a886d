// Loads what terms over torsions read: ids of atoms, and splines through tables.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cpu/separations.h"
#include "energy/spline.h"

namespace tmol_plugin {

// Throws std::invalid_argument that names the array.
void refuse_unless(bool holds, const std::string& name);

// An array that must have `size` elements.
template <class T>
std::span<const T> sized(const Arrays& arrays, const std::string& name, size_t size) {
  const std::span<const T> values = arrays.get<T>(name);
  refuse_unless(values.size() == size, name);
  return values;
}

// The atoms of torsions, `n_torsions` of 4 for each block type; throws if an id names an atom or
// a connection that the block type has not.
std::vector<AtomId> torsion_atoms(const Arrays& arrays, const BlockTypes& types,
                                  const std::string& name, int n_torsions);

// Turns values into the coefficients of the periodic spline through them, in the direction in
// which neighbours are `stride` apart: `values` is [.., kGrid, stride].
void fit_spline(std::span<double> values, size_t stride);

}  // namespace tmol_plugin
