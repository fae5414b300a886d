// Shares out poses and blocks to threads, and adds energies up in the blocks' order.
#include "cpu/score.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>

namespace tmol_plugin {
namespace {

std::vector<float> reference_energies(const Arrays& arrays, const BlockTypes& types) {
  const auto values = arrays.get<float>("ref.weight", size_t(types.n_types()));
  return {values.begin(), values.end()};
}

// Calls task(i) for 0 <= i < n on up to `n_threads` threads, each taking the next i; a thread
// gets its task from make_task(). Throws what the first failing thread threw.
template <class MakeTask>
void share_out(int n, int n_threads, MakeTask make_task) {
  n_threads = std::clamp(n_threads, 1, std::max(1, n));
  std::atomic<int> next = 0;
  std::vector<std::exception_ptr> thrown(n_threads);
  const auto run = [&](int thread) {
    try {
      auto task = make_task();
      for (int i; (i = next++) < n;) task(i);
    } catch (...) {
      thrown[thread] = std::current_exception();
      next = n;
    }
  };
  {
    std::vector<std::jthread> others;
    for (int thread = 1; thread < n_threads; ++thread) others.emplace_back(run, thread);
    run(0);
  }
  for (const std::exception_ptr& one : thrown) {
    if (one) std::rethrow_exception(one);
  }
}

}  // namespace

std::span<const char* const> instruction_sets() {
  static constexpr const char* kAll[] = {"avx2", "baseline"};
#ifdef __x86_64__
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  static constexpr bool has_avx2 = false;
#endif
  return std::span(kAll).subspan(has_avx2 ? 0 : 1);
}

const Kernels& kernels_of(std::string_view instruction_set) {
  const auto known = instruction_sets();
  if (std::find(known.begin(), known.end(), instruction_set) == known.end()) {
    throw std::invalid_argument("instruction set '" + std::string(instruction_set) +
                                "' is not one that the library and this processor have");
  }
  return instruction_set == "avx2" ? kAvx2Kernels : kBaselineKernels;
}

// Where a pose's energies go: rows are score types.
struct Scorer::Result {
  double* energies;
  int64_t n_poses;
  double* block_energies;  // of the pose's first block; null if none are wanted
  int64_t n_blocks;

  // To be called for each block in order.
  void add(int block, const BlockEnergies& of) const {
    for (int type = 0; type < kNScoreTypes; ++type) {
      energies[type * n_poses] += of.total(type);
      if (block_energies) block_energies[type * n_blocks + block] += of.sums()[type];
    }
    for (const BlockEnergies::Half& half : of.halves()) {
      block_energies[half.type * n_blocks + half.block] += half.energy;
    }
  }
};

Scorer::Scorer(const Arrays& arrays, std::string_view instruction_set)
    : kernels_(kernels_of(instruction_set)),
      types_(arrays),
      polar_(arrays, types_),
      atom_pairs_(arrays, types_, polar_),
      hydrogen_bonds_(arrays, polar_),
      cart_(arrays, types_),
      disulfides_(arrays, types_),
      backbone_(arrays, types_),
      dunbrack_(arrays, types_),
      reference_(reference_energies(arrays, types_)) {}

void Scorer::score(const tp_pose_stack& stack, int n_threads, double* energies,
                   double* block_energies) const {
  const int n_poses = int(stack.n_poses);
  const int64_t n_blocks = stack.pose_block_offsets[n_poses];
  std::fill_n(energies, kNScoreTypes * int64_t(n_poses), 0);
  if (block_energies) std::fill_n(block_energies, kNScoreTypes * n_blocks, 0);
  const auto score_one = [&](int pose, int threads, AtomPairs::Scratch& scratch) {
    const int first = stack.pose_block_offsets[pose];
    const PoseView view = {stack.pose_block_offsets[pose + 1] - first,
                           stack.coords,
                           stack.block_types + first,
                           stack.block_atom_offsets + first,
                           stack.block_connection_offsets + first,
                           stack.connections};
    score_pose(
        view, threads, scratch,
        {energies + pose, n_poses, block_energies ? block_energies + first : nullptr, n_blocks});
  };
  // The largest first. Threads share the blocks of those whose size would keep one thread busy
  // when the others are done; of the others each takes the next.
  const auto size = [&](int pose) -> int64_t {
    return stack.pose_block_offsets[pose + 1] - stack.pose_block_offsets[pose];
  };
  std::vector<int> order(n_poses);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return size(a) > size(b); });
  AtomPairs::Scratch scratch;
  int n_shared = 0;
  if (n_threads > 1) {
    while (n_shared < n_poses && size(order[n_shared]) * 2 * n_threads > n_blocks) {
      score_one(order[n_shared++], n_threads, scratch);
    }
  }
  share_out(n_poses - n_shared, n_threads, [&] {
    return
        [&, own = AtomPairs::Scratch()](int i) mutable { score_one(order[n_shared + i], 1, own); };
  });
}

void Scorer::score_block(const PoseWork& work, int block, AtomPairs::Scratch& scratch,
                         BlockEnergies& energies) const {
  const PoseView& pose = *work.pose;
  atom_pairs_.score(work, types_, kernels_, block, scratch, energies);
  hydrogen_bonds_.score(work, types_, block, energies);
  cart_.score(pose, block, energies);
  disulfides_.score(pose, block, energies);
  backbone_.score(pose, block, energies);
  dunbrack_.score(pose, block, energies);
  energies.add(kRef, reference_[pose.block_types[block]]);
}

void Scorer::score_pose(const PoseView& pose, int n_threads, AtomPairs::Scratch& scratch,
                        Result result) const {
  const PoseWork work(pose, types_, atom_pairs_.tables(), atom_pairs_.waters(), hydrogen_bonds_,
                      kernels_);
  const bool by_block = result.block_energies != nullptr;
  if (n_threads == 1) {
    BlockEnergies energies(by_block);
    for (int block = 0; block < pose.n_blocks; ++block) {
      energies.clear();
      score_block(work, block, scratch, energies);
      result.add(block, energies);
    }
    return;
  }
  std::vector<BlockEnergies> energies(pose.n_blocks, BlockEnergies(by_block));
  share_out(pose.n_blocks, n_threads, [&] {
    return [&, own = AtomPairs::Scratch()](int block) mutable {
      score_block(work, block, own, energies[block]);
    };
  });
  for (int block = 0; block < pose.n_blocks; ++block) result.add(block, energies[block]);
}

}  // namespace tmol_plugin
