// The axes of a case and their classes: the one table of situations. The draw asks for classes, a check counts them,
// and a campaign collects those by which kernels choose their paths (judge/situations.h).
//
// An axis is a property of which each case has one value: the number of keys, the fill of V, the alignment
// of K's base. Its classes are the values that a kernel may treat differently. For a number these are the
// values just before, on and just after each border (8, 16, 32, ... and the plan's tiles), and the ranges
// between two borders. Other classes are each kind of mask, or a stride of 0. A bug that needs two or three
// things at once is a pair or a triple of classes of different axes.
//
//   for (const CaseAxis& axis : axes()) {
//     const int is = axis.of(tiled);             // "seq_k 63", or kNoClass
//     axis.make(context, axis.at("65"), c);      // now it has 65 keys
//   }
//
// A new axis is one entry of sizes.cc, visibility.cc, values.cc or memory.cc, one file for each phase of
// the draw, in this order, or of entries.cc, for features that are drawn later. Coverage is stored by the
// classes' positions in the table, so it is valid within one build.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "properties/case/features/feature.h"

namespace attnfuzz {

inline constexpr int kNoClass = -1;  // for example: the layout of a tensor that the case does not have

struct CaseAxis {
  std::string name;
  Phase phase;                       // the phase of the draw that makes its classes
  std::vector<std::string> classes;  // as printed after the name: "63", "bottom-right"
  std::function<int(const Tiled&)> of;
  // Gives the case a class, as far as the rest of the case allows: with one key there is no dead tile. tidy()
  // mends whatever depends on the change.
  std::function<void(const DrawContext&, int at, Case&)> make;
  // From this class to the last, cases cost about a hundred times as much; -1: no class does.
  int dear = -1;
  // A kernel chooses its path by this axis: its loops, their ends, its masks. Most bugs that need several
  // things at once need several of these. Of 100 cases with a row of steering classes, this many include the
  // axis; 0: it does not steer.
  int steers = 0;
  // Its classes are among the situations that a campaign collects, as are those of all axes that steer.
  bool collected = false;
  // All classes but the first are slow to run and to check. Most cases use none of them; the few that do
  // combine several.
  bool odd = false;
  // False: no request asks for a class, because the draw of a feature meets all of them. Coverage counts them.
  bool asked = true;
  // the number of cheap classes that requests ask for
  int usual() const { return !asked ? 0 : dear < 0 ? static_cast<int>(classes.size()) : dear; }
};

// Returns the axes in the order in which they are drawn.
std::span<const CaseAxis> axes();

// --- building blocks of the table ---

// Read and write a number of the case.
using Get = int64_t (*)(const Case&);
using Set = void (*)(Case&, int64_t);

// Class i holds the numbers from starts[i] to the one before starts[i + 1]; the last class ends at `most`.
// `starts` ascend. A number within a class is drawn log-uniformly. Classes from the start `dear` on are
// costly.
CaseAxis number(const char* name, Phase phase, std::vector<int64_t> starts, int64_t most, Get get, Set set,
                int64_t dear = INT64_MAX);
// Adds starts for classes just before, on and after each border, and for the ranges between borders.
std::vector<int64_t> beside(std::vector<int64_t> starts, std::initializer_list<int64_t> borders);
// Classes: 0; just before, on and just after the end of each of the first `tiles` tiles; and the ranges
// between these.
CaseAxis in_tiles(const char* name, Phase phase, int64_t DrawContext::* tile, int64_t Tiled::* tile_of, Get get,
                  Set set, int tiles = 3);
// The same axis, marked as steering (CaseAxis::steers).
CaseAxis steering(int percent, CaseAxis axis);
CaseAxis collected(CaseAxis axis);

// One class of a field with a few values.
struct Choice {
  const char* name;
  bool (*there)(const Case&);  // The first class whose `there` is true is the case's class.
  void (*make)(const DrawContext&, Case&);
};
CaseAxis choice(const char* name, Phase phase, std::initializer_list<Choice> choices);
// An axis with one class for each value 0, 1, ... of an enumeration. `get` may return kNoClass.
CaseAxis kinds(std::string name, Phase phase, std::span<const char* const> names,
               std::function<int(const Case&)> get, std::function<void(const DrawContext&, int, Case&)> set);

// Concatenates lists of axes.
std::vector<CaseAxis> joined(std::vector<std::vector<CaseAxis>> lists);

// The table of each phase.
std::vector<CaseAxis> axes_of_sizes();
std::vector<CaseAxis> axes_of_visibility();
std::vector<CaseAxis> axes_of_values();
std::vector<CaseAxis> axes_of_memory();
std::vector<CaseAxis> axes_of_entries();

}  // namespace attnfuzz
