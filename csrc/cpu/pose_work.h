// What the terms share of one pose while it is scored.
#pragma once

#include "cpu/hbond.h"
#include "cpu/neighbors.h"
#include "cpu/pose_atoms.h"
#include "cpu/separations.h"
#include "cpu/waters.h"
#include "energy/pose_view.h"

namespace tmol_plugin {

// The longest distance at which atoms of two blocks interact, in any term.
inline constexpr float kReach = 6.0f;

struct PoseWork {
  PoseWork(const PoseView& pose, const BlockTypes& types, const PairTables& pairs,
           const WaterTables& water_tables, const HydrogenBonds& hydrogen_bonds,
           const Kernels& kernels)
      : pose(&pose),
        atoms(pairs, pose),
        waters(water_tables, pairs, types, pose, atoms),
        neighbors(atoms.boxes, kReach, kernels),
        near(types, pose),
        bonds(hydrogen_bonds.prepare(types, pose)) {}

  const PoseView* pose;
  PoseAtoms atoms;
  Waters waters;
  Neighbors neighbors;  // within kReach
  NearBlocks near;
  HydrogenBonds::Work bonds;
};

}  // namespace tmol_plugin
