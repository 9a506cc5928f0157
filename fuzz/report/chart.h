// Curves over the time of a campaign, as SVG that takes its colours from the page.
//
//   html += chart({.title = "Cases a second", .end = 7200, .curves = {{"", points}}, .area = true});
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace attnfuzz::report {

struct Curve {
  std::string name;                               // for the legend; empty: none
  std::vector<std::pair<double, double>> points;  // (seconds, value), ascending in time
  bool steps = false;                             // a count: constant until the next point
};

struct Chart {
  std::string title, now;        // `now`: what stands beside the title, "812 /s"
  double end = 0;                // seconds
  std::vector<double> sessions;  // where each but the first began
  std::vector<Curve> curves;
  bool area = false;
};

// A <figure>. Without any point: the title, and that there is nothing yet.
std::string chart(const Chart& chart);

// About `count` round numbers from 0 to at least `most`, which is positive.
std::vector<double> round_steps(double most, int count);

}  // namespace attnfuzz::report
