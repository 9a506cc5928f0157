// The axes of a case and their classes: one table, by which cases are drawn and
// coverage is measured.
//
// An axis is something that a case has one of: a length of keys, the fill of V, the
// alignment of K's base. Its classes are what a kernel may treat differently: a number
// just before, on and just after a border (8, 16, 32, ... and the plan's tiles) and all
// numbers between two borders; each kind of mask; a stride of 0. A bug that needs two or
// three things at once is a pair or a triple of classes of different axes.
//
//   for (const CaseAxis& axis : axes()) {
//     const int is = axis.of(tiled);             // "seq_k 63", or kNoClass
//     axis.make(context, axis.at("65"), c);         // and now it has 65 keys
//   }
//
// A new axis is one entry of sizes.cc, visibility.cc or memory.cc, which are the phases of
// the draw in their order. Coverage is kept by the classes' places in the table, within one
// build.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "properties/case/feature.h"

namespace attnfuzz {

inline constexpr int kNoClass = -1;  // as the layout of a tensor that is not there

struct CaseAxis {
  std::string name;
  Phase phase;                       // of the draw, in which its classes are made
  std::vector<std::string> classes;  // as printed after the name: "63", "bottom-right"
  std::function<int(const Tiled&)> of;
  // Makes the case be of a class, as far as that is in its power: a case of one key has no
  // dead tile. What hangs on what was changed is left to tidy().
  std::function<void(const DrawContext&, int at, Case&)> make;
  // The first of the classes, to the last, that cost a hundred times the others; -1: none.
  int dear = -1;
  // A kernel goes another way by it, through its loops, their ends, its masks; what needs several things at
  // once needs several such, as a rule. In so many of 100 cases that are asked for several of them it is one;
  // 0: it does not steer.
  int steers = 0;
  // Its classes but the first take the slow way through a kernel and through a check, whichever tensor has
  // them: few cases have any, and those have many.
  bool odd = false;
  int usual() const { return dear < 0 ? static_cast<int>(classes.size()) : dear; }  // so many others
};

// In the order in which they are drawn.
std::span<const CaseAxis> axes();

// --- how an axis is written down ---

// A number, whole or of tiles.
using Get = int64_t (*)(const Case&);
using Set = void (*)(Case&, int64_t);

// Classes of the numbers that begin at each of `starts`, ascending; the last ends at `most`.
// Numbers of a class are made log-uniformly. `dear`: the first start that is.
CaseAxis number(const char* name, Phase phase, std::vector<int64_t> starts, int64_t most, Get get, Set set,
                int64_t dear = INT64_MAX);
// Starts of the classes beside borders: before, on and after each, and what lies between.
std::vector<int64_t> beside(std::vector<int64_t> starts, std::initializer_list<int64_t> borders);
// 0, and before, on and after the ends of the first, second and third tile (or of as many as `tiles`), and
// what lies between.
CaseAxis in_tiles(const char* name, Phase phase, int64_t DrawContext::* tile, int64_t Tiled::* tile_of, Get get,
                  Set set, int tiles = 3);
// The same, and it steers so often.
CaseAxis steering(int percent, CaseAxis axis);

// A field of a few values.
struct Choice {
  const char* name;
  bool (*there)(const Case&);  // the first that is
  void (*make)(const DrawContext&, Case&);
};
CaseAxis choice(const char* name, Phase phase, std::initializer_list<Choice> choices);
// One of an enumeration's values 0, 1, ... by their names; `get` may say kNoClass.
CaseAxis kinds(std::string name, Phase phase, std::span<const char* const> names,
               std::function<int(const Case&)> get, std::function<void(const DrawContext&, int, Case&)> set);

// All axes of several lists, in their order.
std::vector<CaseAxis> joined(std::vector<std::vector<CaseAxis>> lists);

// The parts of the table.
std::vector<CaseAxis> axes_of_sizes();
std::vector<CaseAxis> axes_of_visibility();
std::vector<CaseAxis> axes_of_values();
std::vector<CaseAxis> axes_of_memory();

}  // namespace attnfuzz
