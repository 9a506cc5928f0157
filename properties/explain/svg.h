// Draws a failing case as one SVG picture. The left panel shows which keys each query sees. The right panel
// shows where the first wrong output, O or a gradient, is outside its bound.
//
// Both panels have the plan's tile borders, and show the first head that fails. Queries run from top to bottom;
// for an output with a row for each key, keys do. The picture follows the reader's light or dark theme
// (prefers-color-scheme). It needs no font, script or network.
//
//   write_file("window.svg", svg_picture(c, verdict.plan, &reference, &outputs));
#pragma once

#include <string>

#include "kernels/attention.h"
#include "properties/case/case.h"
#include "properties/operations/outputs.h"
#include "reference/oracle.h"

namespace attnfuzz {

// `reference` and `got` may be null; the right panel is then left out. Throws std::invalid_argument for a case
// without queries or keys.
std::string svg_picture(const Case& c, const attn_plan& plan, const Reference* reference, const Outputs* got);

}  // namespace attnfuzz
