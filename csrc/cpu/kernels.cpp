// Lennard-Jones, solvation and electrostatics of a block's atom pairs, fused, several at a time.
//
// Compiled for each instruction set. All but the table of entries has internal linkage.
#include "cpu/kernels.h"

#include <limits>

#include "cpu/pose_atoms.h"
#include "cpu/simd.h"
#include "energy/lk_ball.h"

// A function left out would pass vectors through memory. With the checks of sanitizers in it, the
// whole would take the compiler many minutes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TP_INLINED_WHOLE
#else
#define TP_INLINED_WHOLE [[gnu::flatten]]
#endif

namespace tmol_plugin {
namespace {

using Candidates = PairKernelScratch::Candidates;
using FloatRows4 = const float (*)[4];
using FloatRows8 = const float (*)[8];

constexpr float kReachSq = 36;  // the longest cutoff, squared
// A coordinate out of reach of all others.
constexpr float kNowhere = std::numeric_limits<float>::infinity();

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
  // Copies, which no store through a pointer can change.
  const float *const of_x = of.x, *const of_y = of.y, *const of_z = of.z;
  const int32_t* const of_atom = of.atom;
  int32_t* const hits = scratch.hits;
  float* const hit_dist_sq = scratch.hit_dist_sq;
  const auto dist_sq_to = [=](int i) {
    return square(load(of_x + i) - x) + square(load(of_y + i) - y) + square(load(of_z + i) - z);
  };
  const int n_near = near.n_atoms;
  const uint8_t* const codes = near.codes + a * near.stride;
  int i = 0;
  for (; i < n_near; i += kLanes) {
    const Ints code = widened(codes + i);
    const Floats dist_sq = dist_sq_to(i);
    const Mask is_pair = stdx::static_simd_cast<Floats>(code) != float(kNoCode);
    const Packer packer(dist_sq < kReachSq && is_pair);
    packer.pack(load(of_atom + i) + (code << kCodeShift), hits + count);
    packer.pack(dist_sq, hit_dist_sq + count);
    count += packer.n_kept();
  }
  for (; i < n_candidates; i += kLanes) {
    const Floats dist_sq = dist_sq_to(i);
    const Packer packer(dist_sq < kReachSq);
    packer.pack(load(of_atom + i), hits + count);
    packer.pack(dist_sq, hit_dist_sq + count);
    count += packer.n_kept();
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
      gather_rows(reinterpret_cast<FloatRows8>(in.lk_types), other).of;
  Solvation found = {volume * (own.fade_value * faded.of_value + own.fade_rise * faded.of_rise),
                     own.volume * (fade_value * faded.of_value + fade_rise * faded.of_rise)};
  const Mask is_close = dist < in.lj.max_dis - kFadeWidth;
  if (stdx::none_of(is_close)) return found;

  const auto pairs = reinterpret_cast<FloatRows8>(in.lk_pairs + type * in.n_atom_types);
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

// Sums of all pairs' energies, and those of each other block where they are wanted.
template <bool by_block>
class Sums {
 public:
  Sums(const PairKernelInput& in, double* blocks) : in_(in), blocks_(blocks) {}

  TP_FN void add(int term, Floats energies, Ints atoms) {
    of_[term] += energies;
    if constexpr (!by_block) return;
    for (int lane = 0; lane < kLanes; ++lane) {
      blocks_[kNPairTerms * in_.block_of[atoms[lane]] + term] += energies[lane];
    }
  }

  void finish(double sums[kNPairTerms]) const {
    for (int term = 0; term < kNPairTerms; ++term) {
      for (int lane = 0; lane < kLanes; ++lane) sums[term] += of_[term][lane];
    }
  }

 private:
  const PairKernelInput& in_;
  double* blocks_;
  Floats of_[kNPairTerms] = {0, 0, 0, 0, 0, 0, 0, 0};
};

using AtomHits = PairKernelScratch::AtomHits;

// The pairs of heavy atoms that lk_ball looks at: collected for all atoms of the block while
// solvation is scored, and then scored.
template <class Sums>
class LKBall {
 public:
  LKBall(const PairKernelInput& in, const PairKernelScratch& scratch) : in_(in), to_(scratch) {}

  // What is taken next are pairs of this atom.
  TP_FN void start_atom(int self) {
    self_ = self;
    has_waters_ = in_.rows[self].has_waters > 0;
    const float* const row = in_.waters + 4 * kMaxWaters * self;
    for (int w = 0; has_waters_ && w < kMaxWaters; ++w) {
      waters_[w] = {row[4 * w], row[4 * w + 1], row[4 * w + 2]};
    }
  }

  // Lanes that are no pairs have no solvation.
  TP_FN void take(Ints atom, Vec3<Floats> at, Floats radius, Floats has_waters, Floats dist_sq,
                  Mask is_pair, const Solvation& lk, Sums& sums) {
    const Mask other_has = has_waters > 0 && is_pair;
    if (stdx::any_of(other_has)) {
      sums.add(kPairLKBallIso, select(other_has, lk.of_second, Floats(0)), atom);
      const Packer packer(other_has);
      packer.pack(atom, to_.other_waters.atom + n_other_);
      packer.pack(lk.of_second, to_.other_waters.lk + n_other_);
      store(Ints(self_), to_.other_waters.self + n_other_);
      n_other_ += packer.n_kept();
    }
    if (!has_waters_) return;
    sums.add(kPairLKBallIso, select(is_pair, lk.of_first, Floats(0)), atom);
    const Floats full_contact = contact_dist_sq(radius);
    Floats excess[kMaxWaters], least = Floats(kNoWater);
    for (int w = 0; w < kMaxWaters; ++w) {
      excess[w] = square(at.x - waters_[w].x) + square(at.y - waters_[w].y) +
                  square(at.z - waters_[w].z) - full_contact;
      least = min(least, excess[w]);
    }
    // Beyond, the sum of the exponentials of four waters is too small.
    const Packer packer(is_pair && least < kWaterRamp + 1.4f);
    packer.pack(atom, to_.own_waters.atom + n_own_);
    packer.pack(lk.of_first, to_.own_waters.lk + n_own_);
    for (int w = 0; w < kMaxWaters; ++w) {
      packer.pack(excess[w], to_.own_waters.excess[w] + n_own_);
    }
    n_own_ += packer.n_kept();

    const Floats angle = bridge_angle(dist_sq, in_.water_dist);
    const Packer bridging(other_has && angle > 0);
    bridging.pack(atom, to_.bridges.atom + n_bridges_);
    bridging.pack(lk.of_first + lk.of_second, to_.bridges.lk + n_bridges_);
    bridging.pack(angle, to_.bridges.angle + n_bridges_);
    store(Ints(self_), to_.bridges.self + n_bridges_);
    n_bridges_ += bridging.n_kept();
  }

  TP_FN void score(Sums& sums) {
    // Beyond the last: pairs without solvation or angle.
    store(Ints(self_), to_.own_waters.atom + n_own_);
    store(Floats(0), to_.own_waters.lk + n_own_);
    for (float* excess : to_.own_waters.excess) store(Floats(0), excess + n_own_);
    for (int i = 0; i < n_own_; i += kLanes) {
      Floats exponentials = 0;
      for (const float* excess : to_.own_waters.excess) {
        exponentials += exponential(-load(excess + i));
      }
      sums.add(kPairLKBall, load(to_.own_waters.lk + i) * contact(exponentials, kWaterRamp),
               load(to_.own_waters.atom + i));
    }

    store(Ints(self_), to_.other_waters.atom + n_other_);
    store(Ints(self_), to_.other_waters.self + n_other_);
    store(Floats(0), to_.other_waters.lk + n_other_);
    const auto rows = reinterpret_cast<FloatRows4>(in_.rows);
    for (int i = 0; i < n_other_; i += kLanes) {
      const Ints atom = load(to_.other_waters.atom + i), self = load(to_.other_waters.self + i);
      const auto [x, y, z, _] = gather_rows(rows, self * 2 + 1).of;
      const auto [type, radius, depth, charge] = gather_rows(rows, self * 2).of;
      const Floats full_contact = contact_dist_sq(radius);
      Floats exponentials = 0;
      for (int w = 0; w < kMaxWaters; ++w) {
        exponentials += exponential(full_contact - dist_sq(water_of(atom, w), {x, y, z}));
      }
      sums.add(kPairLKBall, load(to_.other_waters.lk + i) * contact(exponentials, kWaterRamp),
               atom);
    }

    store(Ints(self_), to_.bridges.atom + n_bridges_);
    store(Ints(self_), to_.bridges.self + n_bridges_);
    store(Floats(0), to_.bridges.lk + n_bridges_);
    store(Floats(0), to_.bridges.angle + n_bridges_);
    for (int i = 0; i < n_bridges_; i += kLanes) {
      const Ints atom = load(to_.bridges.atom + i), self = load(to_.bridges.self + i);
      Vec3<Floats> own[kMaxWaters];
      for (int w = 0; w < kMaxWaters; ++w) own[w] = water_of(self, w);
      Floats exponentials = 0;
      for (int v = 0; v < kMaxWaters; ++v) {
        const Vec3<Floats> water = water_of(atom, v);
        // Two waters that are not there are at one point.
        const Mask is_there = water.x != kNoWater;
        for (int w = 0; w < kMaxWaters; ++w) {
          exponentials +=
              select(is_there, exponential(kOverlapGap - dist_sq(own[w], water)), Floats(0));
        }
      }
      // Both directions have the same share, and half of it each.
      const Floats share = contact(exponentials, kOverlapRamp) * load(to_.bridges.angle + i);
      sums.add(kPairLKBridgeUncpl, share, atom);
      sums.add(kPairLKBridge, share * load(to_.bridges.lk + i), atom);
    }
  }

 private:
  static TP_FN Floats dist_sq(Vec3<Floats> a, Vec3<Floats> b) { return dot(a - b, a - b); }
  TP_FN Vec3<Floats> water_of(Ints atom, int water) const {
    const auto [x, y, z, _] =
        gather_rows(reinterpret_cast<FloatRows4>(in_.waters) + water, atom * kMaxWaters).of;
    return {x, y, z};
  }

  const PairKernelInput& in_;
  const PairKernelScratch& to_;
  int self_ = 0;
  bool has_waters_ = false;
  Vec3<float> waters_[kMaxWaters] = {};
  int n_own_ = 0, n_other_ = 0, n_bridges_ = 0;
};

template <class Sums>
TP_FN void score_hits(const PairKernelInput& in, const PairKernelScratch& scratch, int a,
                      LKBall<Sums>& lk_ball, Sums& sums) {
  const AtomHits hits = scratch.hits_of_atom[a];
  const int self = in.begin[in.block] + a;
  const AtomRow& own = in.rows[self];
  const bool is_heavy = self < in.heavy_end[in.block];
  const bool is_polar = in.is_polar[own.type];
  const float* sigmas = in.sigma + own.type * in.n_atom_types;
  const auto rows = reinterpret_cast<FloatRows4>(in.rows);
  if (is_heavy) lk_ball.start_atom(self);
  for (int i = hits.begin; i < hits.end; i += kLanes) {
    const Ints hit = load(scratch.hits + i), atom = hit & ((1 << kCodeShift) - 1);
    const Ints code = hit >> kCodeShift;
    const Floats dist_sq = load(scratch.hit_dist_sq + i), dist = stdx::sqrt(dist_sq);
    const Floats weight = look_up(kBondWeights, code & 3);
    const auto [types, radius, root_depth, charge] = gather_rows(rows, atom * 2).of;
    const Ints other = std::bit_cast<Ints>(types);
    const Floats sigma = is_polar ? gather(sigmas, other) : own.radius + radius;
    const Fade<Floats> faded = fade(dist, in.lj.max_dis);
    const LJEnergy<Floats> lj = lj_energy(dist, sigma, own.root_depth * root_depth, faded, in.lj);
    sums.add(kPairLJAtr, weight * lj.attraction, atom);
    sums.add(kPairLJRep, weight * lj.repulsion, atom);
    const Floats elec_weight =
        look_up(kBondWeights, code >> kElecCodeShift) * (own.charge * charge);
    sums.add(kPairElec,
             select(dist < in.elec.max_dis, elec_weight * elec_energy(dist, in.elec), Floats(0)),
             atom);
    if (!is_heavy || i >= hits.heavy_end) continue;
    Solvation lk = solvation(in, own.type, dist, faded, other);
    const Mask is_pair = first_lanes(hits.heavy_end - i) && weight > 0;
    lk.of_first = select(is_pair, weight * lk.of_first, Floats(0));
    lk.of_second = select(is_pair, weight * lk.of_second, Floats(0));
    sums.add(kPairLK, lk.of_first + lk.of_second, atom);
    const auto [x, y, z, has_waters] = gather_rows(rows, atom * 2 + 1).of;
    lk_ball.take(atom, {x, y, z}, radius, has_waters, dist_sq, is_pair, lk, sums);
  }
}

template <bool by_block>
TP_INLINED_WHOLE void score_all(const PairKernelInput& in, const PairKernelScratch& scratch,
                                double sums[kNPairTerms], double* blocks) {
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
  Sums<by_block> found(in, blocks);
  // All are found before any is scored: what was just stored cannot be loaded at once where a
  // vector spans several stores.
  const int n_atoms = in.begin[in.block + 1] - in.begin[in.block];
  int n_hits = 0;
  for (int a = 0; a < n_atoms; ++a) {
    AtomHits& hits = scratch.hits_of_atom[a];
    hits.begin = n_hits;
    hits.heavy_end = find_hits(in, scratch, heavy, n_heavy, in.near_heavy, a, n_hits);
    hits.end = find_hits(in, scratch, hydrogens, n_hydrogens, in.near_hydrogens, a, hits.heavy_end);
    // Beyond the last: weightless pairs with itself.
    store(Ints((in.begin[in.block] + a) + (kNoCode << kCodeShift)), scratch.hits + hits.end);
    store(Floats(25), scratch.hit_dist_sq + hits.end);
    n_hits = hits.end + kLanes;
  }
  LKBall<Sums<by_block>> lk_ball(in, scratch);
  for (int a = 0; a < n_atoms; ++a) score_hits(in, scratch, a, lk_ball, found);
  lk_ball.score(found);
  found.finish(sums);
}

void score_pairs(const PairKernelInput& in, const PairKernelScratch& scratch,
                 double sums[kNPairTerms], double* by_block) {
  if (by_block) {
    score_all<true>(in, scratch, sums, by_block);
  } else {
    score_all<false>(in, scratch, sums, nullptr);
  }
}

TP_INLINED_WHOLE int near_boxes(const BoxArrays& boxes, int begin, int end, const Box& box,
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
