// Lays out donors and acceptors of a pose, and scores those that are close.
#include "cpu/hbond.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "cpu/pose_work.h"

namespace tmol_plugin {
namespace {

// In the order of the parameters' metadata: see compiled_scoring.py.
enum { kRangeSpan, kRise, kOuterWidth, kSoftmaxFade, kMaxDist = 5, kNGlobals };

// The atoms whose bonds TMol counts in place of a block's donor hydrogens, or of its acceptors:
// the first ones of each tile of 32 atoms, as many as the tile has of them.
class CountedAtoms {
 public:
  // For the next one, in the atoms' order.
  int next(int atom) {
    constexpr int kTile = 32;
    next_ = std::max(next_, atom / kTile * kTile);
    return next_++;
  }

 private:
  int next_ = 0;
};

}  // namespace

HydrogenBonds::HydrogenBonds(const Arrays& arrays, const PolarAtoms& polar) : polar_(&polar) {
  const auto globals = arrays.get<double>("hbond.global", kNGlobals);
  globals_ = {float(globals[kRangeSpan]), float(globals[kRise]), float(globals[kOuterWidth]),
              float(globals[kSoftmaxFade]), float(globals[kMaxDist]) * float(globals[kMaxDist])};
  const int n_donors = polar.n_donor_types(), n_acceptors = polar.n_acceptor_types();
  const auto donor_weight = arrays.get<float>("hbond.donor_weight", n_donors);
  const auto acceptor_weight = arrays.get<float>("hbond.acceptor_weight", n_acceptors);
  pairs_.resize(size_t(n_donors) * n_acceptors);
  const auto read = [&](const std::string& name, HBondPolynomial HBondPair::* polynomial) {
    const auto coefficients = arrays.get<double>(name + "_coefficients", 11 * pairs_.size());
    const auto range = arrays.get<double>(name + "_range", 2 * pairs_.size());
    const auto bound = arrays.get<double>(name + "_bound", 2 * pairs_.size());
    for (size_t p = 0; p < pairs_.size(); ++p) {
      HBondPolynomial& to = pairs_[p].*polynomial;
      std::copy_n(coefficients.begin() + 11 * p, 11, to.coefficients);
      std::copy_n(range.begin() + 2 * p, 2, to.range);
      std::copy_n(bound.begin() + 2 * p, 2, to.bound);
    }
  };
  read("hbond.AHdist", &HBondPair::dist);
  read("hbond.cosBAH", &HBondPair::cos_bah);
  read("hbond.cosAHD", &HBondPair::ahd);
  for (int d = 0; d < n_donors; ++d) {
    for (int a = 0; a < n_acceptors; ++a) {
      pairs_[d * n_acceptors + a].weight = donor_weight[d] * acceptor_weight[a];
    }
  }
}

HydrogenBonds::Work HydrogenBonds::prepare(const BlockTypes& types, const PoseView& pose) const {
  Work work;
  work.donor_offsets.push_back(0);
  work.acceptor_offsets.push_back(0);
  for (int block = 0; block < pose.n_blocks; ++block) {
    const int type = pose.block_types[block], first = pose.atom_offsets[block];
    CountedAtoms of_donors, of_acceptors;
    for (const DonorHydrogen& donor : polar_->donors(type)) {
      work.donors.push_back({pose.position(first + donor.hydrogen),
                             pose.position(first + donor.heavy), donor.hydrogen,
                             of_donors.next(donor.hydrogen), donor.type});
    }
    for (const Acceptor& acceptor : polar_->acceptors(type)) {
      const int counted = of_acceptors.next(acceptor.atom);
      if (acceptor.base < 0) continue;
      const Vec3<float> base = pose.position(first + acceptor.base);
      const int second = find_atom(types.view(), pose, block, acceptor.second_base);
      // An sp3 acceptor does with one base.
      if (second < 0 && acceptor.hybridization != kSp3) continue;
      work.acceptors.push_back({{pose.position(first + acceptor.atom), base,
                                 second < 0 ? base : pose.position(second), acceptor.hybridization},
                                acceptor.atom,
                                counted,
                                acceptor.type});
    }
    work.donor_offsets.push_back(int(work.donors.size()));
    work.acceptor_offsets.push_back(int(work.acceptors.size()));
  }
  return work;
}

void HydrogenBonds::score(const PoseWork& work, const BlockTypes& types, int block,
                          BlockEnergies& energies) const {
  const Work& bonds = work.bonds;
  // The sum over donors of one block and acceptors of another, or the same; atoms less than
  // kFarBonds apart do not bond.
  const auto sum = [&](int donor_block, int acceptor_block, auto n_bonds) {
    double total = 0;
    for (int d = bonds.donor_offsets[donor_block]; d < bonds.donor_offsets[donor_block + 1]; ++d) {
      const Work::Donor& donor = bonds.donors[d];
      for (int a = bonds.acceptor_offsets[acceptor_block];
           a < bonds.acceptor_offsets[acceptor_block + 1]; ++a) {
        const Work::Acceptor& acceptor = bonds.acceptors[a];
        const Vec3<float> bond = donor.hydrogen - acceptor.acceptor.at;
        if (!(dot(bond, bond) < globals_.max_dist_sq)) continue;
        if (n_bonds(donor, acceptor) < kFarBonds) continue;
        total +=
            hbond_energy(donor.heavy, donor.hydrogen, acceptor.acceptor,
                         pairs_[donor.type * polar_->n_acceptor_types() + acceptor.type], globals_);
      }
    }
    return total;
  };
  const int type = work.pose->block_types[block];
  energies.add(kHBond, sum(block, block, [&](const auto& donor, const auto& acceptor) {
                 return types.path(type, donor.atom, acceptor.atom);
               }));
  const auto near = work.near[block];
  const std::vector<Box>& boxes = work.atoms.boxes;
  for (int other : work.neighbors[block]) {
    // A little more than what rounding can take away.
    if (gap_sq(boxes[block], boxes[other]) > 1.001f * globals_.max_dist_sq) continue;
    // TMol counts bonds between other atoms than the two (hbond_pose_score.impl.hh,
    // SCORE_INTER_HBOND_ATOM_PAIR: ordinals where atoms are meant), and so its energies do.
    const auto n_bonds = [&](const auto& own, const auto& others) {
      for (const NearBlock& one : near) {
        if (one.block == other) {
          return separation(types, *work.pose, block, own.counted, one, others.counted);
        }
      }
      return kFarBonds;
    };
    const auto n_bonds_back = [&](const auto& others, const auto& own) {
      return n_bonds(own, others);
    };
    const double total = sum(block, other, n_bonds) + sum(other, block, n_bonds_back);
    if (total != 0) energies.add_pair(kHBond, other, total);
  }
}

}  // namespace tmol_plugin
