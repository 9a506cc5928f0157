// Draws a failing case as one SVG picture: at the left the keys that each query sees, at the right where O
// leaves its bound.
//
// Both panels have the queries from top to bottom and the plan's tile borders, and show the first head that
// fails. The picture follows the reader's light or dark theme (prefers-color-scheme). It needs no font,
// script or network.
//
//   write_file("window.svg", svg_picture(c, verdict.plan, &reference, &o));
#pragma once

#include <string>
#include <vector>

#include "kernels/attention.h"
#include "properties/case/case.h"
#include "reference/oracle.h"

namespace attnfuzz {

// `reference` and `got` (O as read back: rows (b,h,i) x dim_v) may be null; the right panel is then left
// out. Throws std::invalid_argument for a case without queries or keys, because there is nothing to draw.
std::string svg_picture(const Case& c, const attn_plan& plan, const Reference* reference,
                        const std::vector<float>* got);

}  // namespace attnfuzz
