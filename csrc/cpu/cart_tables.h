// Rows of bonded geometry, resolved within block types and across pairs of connections.
#pragma once

#include <array>
#include <vector>

#include "cpu/separations.h"
#include "energy/cart.h"

namespace tmol_plugin {

// One path or improper: its atoms as CartView names them, -1 padded, and its parameters.
struct CartRow {
  int kind;
  std::array<int32_t, 4> atoms;
  std::array<float, 6> values;  // x0, K; or k1, k2, k3, phi1, phi2, phi3
};

// Rows of each block type. Both functions throw std::invalid_argument naming an array that does
// not fit.
std::vector<std::vector<CartRow>> rows_of_block_types(const Arrays& arrays,
                                                      const BlockTypes& types);

// Connections that look the same to every key are of one class; a pair of classes has its rows.
struct CartCrossings {
  std::vector<int32_t> path_ends, connection_class, crossings;  // see CartView
  int n_classes;
  std::vector<std::vector<CartRow>> rows;
};

CartCrossings rows_of_crossings(const Arrays& arrays, const BlockTypes& types);

}  // namespace tmol_plugin
