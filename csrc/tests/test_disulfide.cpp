// The energy of a disulfide in float against the distributions written out in double.
#include <doctest.h>

#include <cmath>

#include "energy/disulfide.h"

using namespace tmol_plugin;

namespace {

constexpr DisulfideView kView = {
    .length = 2.01f,
    .length_scale = 0.08f,
    .length_shape = 6,
    .angle = {-419.812f, 419.7f, 1.8189f},
    .sulfur = {{-32.9599f, 30.9053f, -1.5026f}, {-23.3471f, 20.9805f, 1.6125f}},
    .mixed_sulfur = {{-28.1535f, 25.9429f, -1.5708f}, {-28.1535f, 25.9429f, 1.5708f}},
    .carbon = {{-15.8644f, 13.3778f, -1.2601f},
               {-16.9017f, 13.637f, 1.3618f},
               {-7.0219f, 2.9327f, -3.0115f}},
    .sulfur_weight = 0.1f,
    .carbon_weight = 0.1f,
    .angle_weight = 0.1f,
    .length_weight = 0.1f,
    .shift = 2,
    .connection = nullptr,
    .is_mirrored = nullptr,
};

template <class S>
HalfCystine<S> half(const double (&xyz)[9], bool is_mirrored) {
  const auto at = [&](int i) { return Vec3<S>{S(xyz[i]), S(xyz[i + 1]), S(xyz[i + 2])}; };
  return {at(0), at(3), at(6), is_mirrored};
}

// Sulfur, its carbon, the next one, of about a right-handed disulfide.
constexpr double kFirst[] = {0, 0, 0, -0.45, 1.74, 0, 0.55, 2.6, 0.75};
constexpr double kSecond[] = {2.03, 0, 0, 2.5, 0.1, 1.75, 3.1, -1.2, 2.2};
constexpr double kSecondMirrored[] = {2.03, 0, 0, 2.5, 0.1, -1.75, 3.1, -1.2, -2.2};
constexpr double kFirstMirrored[] = {0, 0, 0, -0.45, 1.74, 0, 0.55, 2.6, -0.75};

double energy(const double (&a)[9], bool a_mirrored, const double (&b)[9], bool b_mirrored) {
  return disulfide_energy(kView, half<double>(a, a_mirrored), half<double>(b, b_mirrored));
}

}  // namespace

TEST_CASE("a mixture is minus the logarithm of its density") {
  for (double x = -3; x < 3.1; x += 0.25) {
    double density = std::exp(-20.0);
    for (const VonMises& part : kView.carbon) {
      density +=
          std::exp(double(part.log_a) + double(part.kappa) * std::cos(x - double(part.mean)));
    }
    const CosSin<double> at = {std::cos(x), std::sin(x)}, mirrored = {at.cos, -at.sin};
    CHECK(minus_log(kView.carbon, at, false) == doctest::Approx(-std::log(density)));
    CHECK(minus_log(kView.carbon, mirrored, true) == doctest::Approx(-std::log(density)));
    CHECK(minus_log(kView.carbon, CosSin<float>{float(at.cos), float(at.sin)}, false) ==
          doctest::Approx(-std::log(density)).epsilon(1e-5));
  }
}

TEST_CASE("float is double, whatever the hands") {
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      const float found = disulfide_energy(kView, half<float>(kFirst, a), half<float>(kSecond, b));
      CHECK(std::abs(found - energy(kFirst, a, kSecond, b)) < 1e-4);
    }
  }
}

TEST_CASE("a mirror image has the energy of the original, and neither end is the first") {
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      const double original = energy(kFirst, a, kSecond, b);
      CHECK(energy(kSecond, b, kFirst, a) == doctest::Approx(original));
      CHECK(energy(kFirstMirrored, !a, kSecondMirrored, !b) ==
            doctest::Approx(original).epsilon(1e-5));
    }
  }
  CHECK(energy(kFirst, false, kSecond, false) != energy(kFirst, true, kSecond, true));
}
