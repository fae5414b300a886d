// Scores lengths, angles and torsions of a block, and across its connections.
#pragma once

#include <vector>

#include "cpu/block_energies.h"
#include "cpu/separations.h"
#include "energy/cart.h"

namespace tmol_plugin {

class Cart {
 public:
  // Throws std::invalid_argument naming an array that does not fit the block types.
  Cart(const Arrays& arrays, const BlockTypes& types);

  // Of the block, and across its connections to blocks that do not come before it.
  void score(const PoseView& pose, int block, BlockEnergies& energies) const;

  const CartView& view() const { return view_; }

 private:
  BlockTypesView types_;
  std::vector<CartPack<CartLength>> lengths_;
  std::vector<CartPack<CartAngle>> angles_;
  std::vector<CartPack<CartTorsion>> torsions_;
  std::vector<CartRows> rows_;
  std::vector<int32_t> path_ends_, connection_class_, crossings_;
  CartView view_;
};

}  // namespace tmol_plugin
