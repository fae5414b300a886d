// Places the waters of a pose.
#include "cpu/waters.h"

#include <algorithm>
#include <stdexcept>

#include "cpu/pose_atoms.h"
#include "energy/hbond.h"

namespace tmol_plugin {

// In the order of the parameters' metadata: see compiled_scoring.py.
enum { kWaterDist = 5, kAngleSp2, kAngleSp3, kAngleRing };

WaterTables::WaterTables(const Arrays& arrays, const PolarAtoms& polar) : polar_(&polar) {
  const auto globals = arrays.get<double>("lj.global");
  if (globals.size() <= kAngleRing) throw std::invalid_argument("array 'lj.global' is too short");
  dist_ = float(globals[kWaterDist]);
  const auto add = [&](int hybridization, const char* torsions, int angle_at) {
    const double angle = M_PI - globals[angle_at], dist = globals[kWaterDist];
    for (double torsion : arrays.get<double>(torsions)) {
      places_[hybridization].push_back({float(dist * std::cos(angle)),
                                        float(dist * std::sin(angle) * std::cos(torsion)),
                                        float(dist * std::sin(angle) * std::sin(torsion))});
    }
  };
  add(kSp2, "lk.water_torsions_sp2", kAngleSp2);
  add(kSp3, "lk.water_torsions_sp3", kAngleSp3);
  add(kRing, "lk.water_torsions_ring", kAngleRing);
}

Waters::Waters(const WaterTables& tables, const PairTables& pairs, const BlockTypes& types,
               const PoseView& pose, PoseAtoms& atoms)
    : rows_(std::make_unique_for_overwrite<float[]>(atoms.rows.size() * kMaxWaters * 4)) {
  for (int block = 0; block < pose.n_blocks; ++block) {
    const int type = pose.block_types[block], first = pose.atom_offsets[block];
    const auto put = [&](int atom, int slot, Vec3<float> water) {
      if (slot >= kMaxWaters) return;
      const int at = atoms.begin[block] + pairs.place[types.atom_begin(type) + atom];
      float* const row = rows_.get() + 4 * kMaxWaters * at;
      if (!atoms.rows[at].has_waters) std::fill_n(row, 4 * kMaxWaters, kNoWater);
      atoms.rows[at].has_waters = 1;
      row[4 * slot] = water.x;
      row[4 * slot + 1] = water.y;
      row[4 * slot + 2] = water.z;
    };
    for (const DonorHydrogen& donor : tables.polar().donors(type)) {
      put(donor.heavy, donor.ordinal,
          donor_water(pose.position(first + donor.heavy), pose.position(first + donor.hydrogen),
                      tables.dist()));
    }
    for (const Acceptor& acceptor : tables.polar().acceptors(type)) {
      const int second = find_atom(types.view(), pose, block, acceptor.second_base);
      if (acceptor.base < 0 || second < 0) continue;
      Vec3<float> base = pose.position(first + acceptor.base);
      const Vec3<float> second_base = pose.position(second);
      // From the middle of a ring's two atoms.
      if (acceptor.hybridization == kRing) base = 0.5f * (base + second_base);
      int slot = acceptor.n_hydrogens;
      for (const WaterPlace<float>& place : tables.places(acceptor.hybridization)) {
        Vec3<float> water;
        if (acceptor_water(pose.position(first + acceptor.atom), base, second_base, place,
                           &water)) {
          put(acceptor.atom, slot, water);
        }
        ++slot;
      }
    }
  }
}

}  // namespace tmol_plugin
