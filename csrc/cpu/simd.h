// Several floats side by side as a scalar for term code, as wide as the compiler's target has them.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <experimental/simd>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "energy/scalar.h"

namespace tmol_plugin {

namespace stdx = std::experimental;
using Floats = stdx::native_simd<float>;
using Ints = stdx::rebind_simd_t<int32_t, Floats>;
using Mask = Floats::mask_type;
inline constexpr int kLanes = int(Floats::size());

template <>
TP_FN Floats select(Mask yes, Floats a, Floats b) {
  stdx::where(yes, b) = a;
  return b;
}

template <>
TP_FN bool any_of(Mask mask) {
  return stdx::any_of(mask);
}

// e^x to 2 units in the last place, 0 where that is below 1e-38, for x up to 88: the
// reduction and polynomial of Cephes' expf.
template <>
TP_FN Floats exponential(Floats x) {
  const auto is_zero = x < Floats(-87.33f);
  x = max(x, Floats(-87.33f));
  const Ints n =
      stdx::static_simd_cast<Ints>(x * 1.44269504f + select(x < 0, Floats(-0.5f), Floats(0.5f)));
  const Floats k = stdx::static_simd_cast<Floats>(n);
  const Floats r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
  Floats p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return select(is_zero, Floats(0), p * std::bit_cast<Floats>((n + 127) << 23));
}

// The natural logarithm of normal positive numbers, to 2 units in the last place: the reduction
// and polynomial of Cephes' logf.
template <>
TP_FN Floats logarithm(Floats x) {
  // x is 2^e (1 + m), 1 + m from sqrt(1/2) to sqrt(2).
  const Ints bits = std::bit_cast<Ints>(x) - 0x3f3504f3;
  const Floats e = stdx::static_simd_cast<Floats>(bits >> 23);
  const Floats m = std::bit_cast<Floats>((bits & 0x7fffff) + 0x3f3504f3) - 1.0f;
  const Floats m_sq = m * m;
  Floats p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  p = p * m * m_sq - 2.12194440e-4f * e - 0.5f * m_sq;
  return m + p + 0.693359375f * e;
}

// What follows has the same names whatever the width of vectors: without internal linkage the
// linker would keep one for all instruction sets.
namespace {

inline Floats load(const float* from) { return Floats(from, stdx::element_aligned); }
inline Ints load(const int32_t* from) { return Ints(from, stdx::element_aligned); }
inline void store(Floats values, float* to) { values.copy_to(to, stdx::element_aligned); }
inline void store(Ints values, int32_t* to) { values.copy_to(to, stdx::element_aligned); }

// values[at[lane]] in each lane.
inline Floats gather(const float* values, Ints at) {
  return Floats([&](auto lane) { return values[at[lane]]; });
}

template <int n>
struct Fields {
  Floats of[n];
};

// Fields of rows of 4 or 8 floats: field f of lane l is rows[at[l]][f].
template <int n>
inline Fields<n> gather_rows(const float (*rows)[n], Ints at) {
#ifdef __AVX2__
  // Whole rows are loaded and transposed: a fraction of the instructions of as many gathers.
  static_assert(n == 4 || n == 8);
  __m256 low[4], high[4];  // columns 0 to 3, and 4 to 7, of two rows each
  for (int pair = 0; pair < 4; ++pair) {
    const float *first = rows[at[pair]], *second = rows[at[pair + 4]];
    low[pair] =
        _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(first)), _mm_loadu_ps(second), 1);
    if constexpr (n == 8) {
      high[pair] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(first + 4)),
                                        _mm_loadu_ps(second + 4), 1);
    }
  }
  Fields<n> found;
  const auto transpose = [](const __m256* in, Floats* out) {
    const __m256 a = _mm256_unpacklo_ps(in[0], in[1]), b = _mm256_unpackhi_ps(in[0], in[1]);
    const __m256 c = _mm256_unpacklo_ps(in[2], in[3]), d = _mm256_unpackhi_ps(in[2], in[3]);
    out[0] = std::bit_cast<Floats>(_mm256_shuffle_ps(a, c, _MM_SHUFFLE(1, 0, 1, 0)));
    out[1] = std::bit_cast<Floats>(_mm256_shuffle_ps(a, c, _MM_SHUFFLE(3, 2, 3, 2)));
    out[2] = std::bit_cast<Floats>(_mm256_shuffle_ps(b, d, _MM_SHUFFLE(1, 0, 1, 0)));
    out[3] = std::bit_cast<Floats>(_mm256_shuffle_ps(b, d, _MM_SHUFFLE(3, 2, 3, 2)));
  };
  transpose(low, found.of);
  if constexpr (n == 8) transpose(high, found.of + 4);
  return found;
#else
  Fields<n> found;
  for (int f = 0; f < n; ++f) {
    found.of[f] = Floats([&](auto lane) { return rows[at[lane]][f]; });
  }
  return found;
#endif
}

inline Ints lane_numbers() {
  return Ints([](auto lane) { return int32_t(lane); });
}

inline Ints widened(const uint8_t* from) {
#ifdef __AVX2__
  return std::bit_cast<Ints>(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
#else
  return Ints([&](auto lane) { return int32_t(from[lane]); });
#endif
}

// table[at[lane]] in each lane.
inline Floats look_up(const float (&table)[8], Ints at) {
#ifdef __AVX2__
  return std::bit_cast<Floats>(
      _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), std::bit_cast<__m256i>(at)));
#else
  return gather(table, at);
#endif
}

// The first n lanes: all if there are no more, none if n is not positive.
inline Mask first_lanes(int n) {
  return Floats([](auto lane) { return float(lane); }) < Floats(float(n));
}

// Moves the lanes that are set to the front, in their order.
class Packer {
 public:
  explicit Packer(Mask kept) {
#ifdef __AVX2__
    // A set sign bit tells; each row of the table is the permutation for one set of lanes.
    const unsigned bits = unsigned(_mm256_movemask_ps(std::bit_cast<__m256>(kept)));
    n_kept_ = std::popcount(bits);
    order_ =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(&kOrders[bits])));
#else
    kept_ = kept;
    n_kept_ = stdx::popcount(kept);
#endif
  }

  int n_kept() const { return n_kept_; }

  // Writes the lanes that are set to `to`; all kLanes places there may be overwritten.
  void pack(Floats values, float* to) const {
#ifdef __AVX2__
    _mm256_storeu_ps(to, _mm256_permutevar8x32_ps(std::bit_cast<__m256>(values), order_));
#else
    for (int lane = 0, at = 0; lane < kLanes; ++lane) {
      to[at] = values[lane];
      at += kept_[lane];
    }
#endif
  }
  void pack(Ints values, int32_t* to) const {
#ifdef __AVX2__
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm256_permutevar8x32_epi32(std::bit_cast<__m256i>(values), order_));
#else
    for (int lane = 0, at = 0; lane < kLanes; ++lane) {
      to[at] = values[lane];
      at += kept_[lane];
    }
#endif
  }

 private:
  int n_kept_;
#ifdef __AVX2__
  static constexpr std::array<uint64_t, 256> kOrders = [] {
    std::array<uint64_t, 256> orders{};
    for (unsigned bits = 0; bits < 256; ++bits) {
      for (unsigned lane = 0, at = 0; lane < 8; ++lane) {
        if (bits >> lane & 1) orders[bits] |= uint64_t{lane} << (8 * at++);
      }
    }
    return orders;
  }();
  __m256i order_;
#else
  Mask kept_;
#endif
};

}  // namespace

}  // namespace tmol_plugin
