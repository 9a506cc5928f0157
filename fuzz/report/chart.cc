#include "fuzz/report/chart.h"

#include <algorithm>
#include <cmath>

#include "fuzz/report/html.h"
#include "properties/case/words.h"

namespace attnfuzz::report {
namespace {

// In the units of the picture, which a telephone shows nearly one to one.
constexpr double kWidth = 360, kHeight = 170, kLeft = 40, kRight = 6, kTop = 8, kBottom = 20;
constexpr int kColours = 6;

struct Unit {
  double seconds;
  const char* name;
};

Unit unit_of(double end) {
  if (end < 300) return {1, "s"};
  return end < 3 * 3600 ? Unit{60, "min"} : Unit{3600, "h"};
}

struct Scale {
  double end, most;
  double x(double t) const { return kLeft + std::clamp(t / end, 0.0, 1.0) * (kWidth - kLeft - kRight); }
  double y(double v) const { return kHeight - kBottom - v / most * (kHeight - kTop - kBottom); }
};

std::string path_of(const Curve& curve, const Scale& scale) {
  std::string d;
  double previous = 0;
  for (const auto& [t, value] : curve.points) {
    const std::string x = point(scale.x(t)), y = point(scale.y(value));
    if (d.empty()) {
      d = cat("M", x, " ", y);
    } else {
      if (curve.steps) d += cat("L", x, " ", point(scale.y(previous)));
      d += cat("L", x, " ", y);
    }
    previous = value;
  }
  if (curve.steps) d += cat("L", point(scale.x(scale.end)), " ", point(scale.y(previous)));
  return d;
}

}  // namespace

std::vector<double> round_steps(double most, int count) {
  const double raw = most / count, power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double candidate : {1.0, 2.0, 2.5, 5.0}) {
    if (candidate * power >= raw * 0.999) {
      step = candidate * power;
      break;
    }
  }
  std::vector<double> steps;
  for (int n = 0; n == 0 || steps.back() < most * 0.999; ++n) steps.push_back(n * step);
  return steps;
}

std::string chart(const Chart& chart) {
  double most = 0;
  bool any = false;
  for (const Curve& curve : chart.curves) {
    for (const auto& [t, value] : curve.points) {
      most = std::max(most, value);
      any = true;
    }
  }
  std::string html = cat("<figure class=\"card\"><figcaption><span>", escape(chart.title), "</span><small>",
                         chart.now, "</small></figcaption>\n");
  if (!any || !(chart.end > 0)) return html + "<p class=\"muted\">Nothing yet.</p></figure>\n";
  const std::vector<double> values = round_steps(most > 0 ? most : 1, 3);
  const Scale scale = {chart.end, values.back()};
  html += cat("<svg viewBox=\"0 0 ", point(kWidth), " ", point(kHeight), "\" role=\"img\" aria-label=\"",
              escape(chart.title), " over time\">\n");
  for (const double value : values) {
    const std::string y = point(scale.y(value));
    html += cat("<line class=\"grid\" x1=\"", point(kLeft), "\" x2=\"", point(kWidth - kRight), "\" y1=\"", y,
                "\" y2=\"", y, "\"/><text x=\"", point(kLeft - 6), "\" y=\"", point(scale.y(value) + 4),
                "\" text-anchor=\"end\">", compact(value), "</text>\n");
  }
  const Unit unit = unit_of(chart.end);
  for (const double t : round_steps(chart.end / unit.seconds, 4)) {
    if (t * unit.seconds > chart.end * 1.001) continue;
    const bool last = t * unit.seconds > chart.end * 0.94;
    html +=
        cat("<text x=\"", point(scale.x(t * unit.seconds)), "\" y=\"", point(kHeight - 4), "\" text-anchor=\"",
            t == 0 ? "start"
            : last ? "end"
                   : "middle",
            "\">", compact(t), t == 0 ? "" : cat(" ", unit.name), "</text>\n");
  }
  for (const double t : chart.sessions) {
    const std::string x = point(scale.x(t));
    html += cat("<line class=\"session\" x1=\"", x, "\" x2=\"", x, "\" y1=\"", point(kTop), "\" y2=\"",
                point(kHeight - kBottom), "\"><title>resumed after ", duration(t), "</title></line>\n");
  }
  std::string legend;
  for (size_t n = 0; n < chart.curves.size(); ++n) {
    const Curve& curve = chart.curves[n];
    if (curve.points.empty()) continue;
    const std::string colour = cat("var(--s", n % kColours, ")"), d = path_of(curve, scale);
    if (chart.area) {
      const double from = curve.points.front().first;
      const double to = curve.steps ? chart.end : curve.points.back().first;
      html += cat("<path class=\"area\" style=\"fill:", colour, "\" d=\"", d, "L", point(scale.x(to)), " ",
                  point(scale.y(0)), "L", point(scale.x(from)), " ", point(scale.y(0)), "Z\"/>\n");
    }
    html += cat("<path class=\"curve\" style=\"stroke:", colour, "\" d=\"", d, "\"/>\n");
    if (!curve.name.empty())
      legend += cat("<li><i style=\"background:", colour, "\"></i>", escape(curve.name), "</li>");
  }
  html += "</svg>\n";
  if (!legend.empty()) html += cat("<ul class=\"legend\">", legend, "</ul>\n");
  return html + "</figure>\n";
}

}  // namespace attnfuzz::report
