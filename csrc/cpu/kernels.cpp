// Lennard-Jones, solvation and electrostatics of a block's atom pairs, fused, several at a time.
//
// Compiled for each instruction set. All but the table of entries has internal linkage.
#include "cpu/kernels.h"

#include "cpu/pose_atoms.h"
#include "cpu/simd.h"

namespace tmol_plugin {
namespace {

using Candidates = PairKernelScratch::Candidates;

constexpr float kReachSq = 36;   // the longest cutoff, squared
constexpr float kNowhere = 1e6;  // a coordinate beyond all others

TP_FN Floats square(Floats a) { return a * a; }

// From what reaches from low to high to what reaches from own_low to own_high.
TP_FN Floats gap(Floats low, Floats high, float own_low, float own_high) {
  return max(Floats(0), max(low - own_high, own_low - high));
}

// Puts near atoms first.
int take_near(const PairKernelInput& in, const PairKernelInput::NearAtoms& near,
              const Candidates& to) {
  for (int i = 0; i < near.n_atoms; ++i) {
    const int atom = near.atoms[i];
    to.x[i] = in.x[atom];
    to.y[i] = in.y[atom];
    to.z[i] = in.z[atom];
    to.atom[i] = atom;
  }
  return near.n_atoms;
}

// Appends atoms `begin` to `end` that are within reach of the box; returns the new count.
int take_far(const PairKernelInput& in, const Box& box, int begin, int end, const Candidates& to,
             int count) {
  const Floats zero = 0;
  for (int i = begin; i < end; i += kLanes) {
    const Floats x = load(in.x + i), y = load(in.y + i), z = load(in.z + i);
    const Floats gap_sq = square(gap(x, x, box.low.x, box.high.x)) +
                          square(gap(y, y, box.low.y, box.high.y)) +
                          square(gap(z, z, box.low.z, box.high.z));
    const Ints atom = lane_numbers() + i;
    const Packer packer(gap_sq < select(first_lanes(end - i), Floats(kReachSq), zero));
    packer.pack(x, to.x + count);
    packer.pack(y, to.y + count);
    packer.pack(z, to.z + count);
    packer.pack(atom, to.atom + count);
    count += packer.n_kept();
  }
  return count;
}

void end_candidates(const Candidates& of, int count) {
  for (int i = count; i < count + kLanes; ++i) of.x[i] = of.y[i] = of.z[i] = kNowhere;
}

// Appends the candidates within reach of atom `a` of the block; returns the new count of hits.
int find_hits(const PairKernelInput& in, const PairKernelScratch& scratch, const Candidates& of,
              int n_candidates, const PairKernelInput::NearAtoms& near, int a, int count) {
  const int self = in.begin[in.block] + a;
  const Floats x = in.x[self], y = in.y[self], z = in.z[self];
  const auto dist_sq_to = [&](int i) {
    return square(load(of.x + i) - x) + square(load(of.y + i) - y) + square(load(of.z + i) - z);
  };
  const auto put = [&](const Packer& packer, int i, Floats dist_sq) {
    packer.pack(load(of.atom + i), scratch.hit_atom + count);
    packer.pack(dist_sq, scratch.hit_dist_sq + count);
  };
  int i = 0;
  for (; i < near.n_atoms; i += kLanes) {
    const Floats lj = load(near.lj_weights + a * near.stride + i);
    const Floats elec = load(near.elec_weights + a * near.stride + i);
    const Floats dist_sq = dist_sq_to(i);
    const Packer packer(dist_sq < select(lj + elec > 0, Floats(kReachSq), Floats(0)));
    put(packer, i, dist_sq);
    packer.pack(lj, scratch.hit_lj_weight + count);
    packer.pack(elec, scratch.hit_elec_weight + count);
    count += packer.n_kept();
  }
  const int n_near_hits = count;
  for (; i < n_candidates; i += kLanes) {
    const Floats dist_sq = dist_sq_to(i);
    const Packer packer(dist_sq < kReachSq);
    put(packer, i, dist_sq);
    count += packer.n_kept();
  }
  for (int hit = n_near_hits; hit < count; hit += kLanes) {
    store(Floats(1), scratch.hit_lj_weight + hit);
    store(Floats(1), scratch.hit_elec_weight + hit);
  }
  return count;
}

struct Solvation {
  Floats of_first, of_second;
};

Solvation solvation(const PairKernelInput& in, int type, Floats dist, Fade<Floats> faded,
                    Ints other) {
  // Fields in the order of LKType and LKPair.
  const LKType& own = in.lk_types[type];
  const auto [volume, radius, coefficient, inverse_lambda_sq, fade_value, fade_rise, _, __] =
      gather_rows(reinterpret_cast<const float (*)[8]>(in.lk_types), other).of;
  Solvation found = {volume * (own.fade_value * faded.of_value + own.fade_rise * faded.of_rise),
                     own.volume * (fade_value * faded.of_value + fade_rise * faded.of_rise)};
  const Mask is_close = dist < in.lj.max_dis - kFadeWidth;
  if (stdx::none_of(is_close)) return found;

  const auto pairs = reinterpret_cast<const float (*)[8]>(in.lk_pairs + type * in.n_atom_types);
  const auto [plateau_end, analytic_start, first_plateau, first_value, first_slope, second_plateau,
              second_value, second_slope] = gather_rows(pairs, other).of;
  Floats of_first =
      lk_close(dist, plateau_end, analytic_start, first_plateau, first_value, first_slope);
  Floats of_second =
      lk_close(dist, plateau_end, analytic_start, second_plateau, second_value, second_slope);
  const Mask is_analytic = dist > analytic_start;
  if (stdx::any_of(is_analytic && is_close)) {
    of_first = select(is_analytic,
                      volume * lk_analytic(dist, Floats(own.radius), Floats(own.coefficient),
                                           Floats(own.inverse_lambda_sq)),
                      of_first);
    of_second =
        select(is_analytic, own.volume * lk_analytic(dist, radius, coefficient, inverse_lambda_sq),
               of_second);
  }
  return {select(is_close, of_first, found.of_first), select(is_close, of_second, found.of_second)};
}

struct Sums {
  Floats of[kNPairTerms] = {0, 0, 0, 0};
};

void score_hits(const PairKernelInput& in, const PairKernelScratch& scratch, int a, int n_heavy,
                int n_hits, Sums& sums, double* by_block) {
  const int self = in.begin[in.block] + a;
  const AtomRow& own = in.rows[self];
  // Beyond the last: weightless pairs with itself.
  store(Ints(self), scratch.hit_atom + n_hits);
  store(Floats(25), scratch.hit_dist_sq + n_hits);
  store(Floats(0), scratch.hit_lj_weight + n_hits);
  store(Floats(0), scratch.hit_elec_weight + n_hits);
  const bool is_heavy = self < in.heavy_end[in.block];
  const bool is_polar = in.is_polar[own.type];
  const float* sigmas = in.sigma + own.type * in.n_atom_types;
  for (int i = 0; i < n_hits; i += kLanes) {
    const Ints atom = load(scratch.hit_atom + i);
    const Floats dist = stdx::sqrt(load(scratch.hit_dist_sq + i));
    const Floats weight = load(scratch.hit_lj_weight + i);
    const auto [types, radius, root_depth, charge] =
        gather_rows(reinterpret_cast<const float (*)[4]>(in.rows), atom).of;
    const Ints other = std::bit_cast<Ints>(types);
    const Floats sigma = is_polar ? gather(sigmas, other) : own.radius + radius;
    const Fade<Floats> faded = fade(dist, in.lj.max_dis);
    const LJEnergy<Floats> lj = lj_energy(dist, sigma, own.root_depth * root_depth, faded, in.lj);
    const Floats elec_weight = load(scratch.hit_elec_weight + i) * (own.charge * charge);
    Floats energies[kNPairTerms] = {
        weight * lj.attraction, weight * lj.repulsion, 0,
        select(dist < in.elec.max_dis, elec_weight * elec_energy(dist, in.elec), Floats(0))};
    if (is_heavy && i < n_heavy) {
      const Solvation lk = solvation(in, own.type, dist, faded, other);
      energies[kPairLK] =
          select(first_lanes(n_heavy - i), weight * (lk.of_first + lk.of_second), Floats(0));
    }
    for (int term = 0; term < kNPairTerms; ++term) sums.of[term] += energies[term];
    if (by_block) {
      for (int lane = 0; lane < kLanes; ++lane) {
        double* const block = by_block + kNPairTerms * in.block_of[atom[lane]];
        for (int term = 0; term < kNPairTerms; ++term) block[term] += energies[term][lane];
      }
    }
  }
}

// Inlined whole: a function left out would pass vectors through memory.
[[gnu::flatten]] void score_pairs(const PairKernelInput& in, const PairKernelScratch& scratch,
                                  double sums[kNPairTerms], double* by_block) {
  const Candidates &heavy = scratch.heavy, &hydrogens = scratch.hydrogens;
  int n_heavy = take_near(in, in.near_heavy, heavy);
  int n_hydrogens = take_near(in, in.near_hydrogens, hydrogens);
  for (int n = 0; n < in.n_far_blocks; ++n) {
    const int other = in.far_blocks[n];
    const Box& box = in.boxes[in.block];
    const int middle = in.heavy_end[other];
    n_heavy = take_far(in, box, in.begin[other], middle, heavy, n_heavy);
    n_hydrogens = take_far(in, box, middle, in.begin[other + 1], hydrogens, n_hydrogens);
  }
  end_candidates(heavy, n_heavy);
  end_candidates(hydrogens, n_hydrogens);
  Sums found;
  for (int a = 0; a < in.begin[in.block + 1] - in.begin[in.block]; ++a) {
    const int n_heavy_hits = find_hits(in, scratch, heavy, n_heavy, in.near_heavy, a, 0);
    const int n_hits =
        find_hits(in, scratch, hydrogens, n_hydrogens, in.near_hydrogens, a, n_heavy_hits);
    score_hits(in, scratch, a, n_heavy_hits, n_hits, found, by_block);
  }
  for (int term = 0; term < kNPairTerms; ++term) {
    for (int lane = 0; lane < kLanes; ++lane) sums[term] += found.of[term][lane];
  }
}

[[gnu::flatten]] int near_boxes(const BoxArrays& boxes, int begin, int end, const Box& box,
                                float reach_sq, int after, int32_t* found) {
  int count = 0;
  for (int i = begin; i < end; i += kLanes) {
    const Floats gap_sq =
        square(gap(load(boxes.low_x + i), load(boxes.high_x + i), box.low.x, box.high.x)) +
        square(gap(load(boxes.low_y + i), load(boxes.high_y + i), box.low.y, box.high.y)) +
        square(gap(load(boxes.low_z + i), load(boxes.high_z + i), box.low.z, box.high.z));
    const Ints block = load(boxes.blocks + i);
    // Exact: a float counts blocks up to 16 million.
    const Mask is_later = stdx::static_simd_cast<Floats>(block) > float(after);
    const Packer packer(gap_sq < reach_sq && is_later && first_lanes(end - i));
    packer.pack(block, found + count);
    count += packer.n_kept();
  }
  return count;
}

}  // namespace

extern const Kernels TP_KERNELS = {score_pairs, near_boxes};

}  // namespace tmol_plugin
