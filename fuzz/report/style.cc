#include "fuzz/report/html.h"

namespace attnfuzz::report {

// Colours are variables, set once for light and once for dark; pictures use them
// as text does. Nothing is wider than the window but what scrolls by itself.
const char* const kStyle = R"css(
:root {
  color-scheme: light dark;
  --paper: #fbfaf8; --card: #ffffff; --ink: #1d2126; --muted: #646b75; --line: #e2dfd9; --faint: #f1efeb;
  --accent: #2563a8; --good: #2f7d4f; --warn: #a8650a; --bad: #bb2d3b; --bad-soft: #f6d9dc; --warn-soft: #f8ead2;
  --good-soft: #dcefe2; --seen: #b9cfe8; --hidden: #f1efeb;
  --s0: #2563a8; --s1: #c2571a; --s2: #2f7d4f; --s3: #8250b8; --s4: #b0356f; --s5: #6b7280;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #15181c; --card: #1c2026; --ink: #e6e4df; --muted: #9aa2ad; --line: #31373f; --faint: #252a31;
    --accent: #74a9e6; --good: #6cc08f; --warn: #e0a84e; --bad: #f07582; --bad-soft: #45242a; --warn-soft: #40331d;
    --good-soft: #1f3a2b; --seen: #38557a; --hidden: #252a31;
    --s0: #74a9e6; --s1: #ee9561; --s2: #6cc08f; --s3: #b795ea; --s4: #e682b0; --s5: #9aa2ad;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, -apple-system, "Segoe UI",
  Roboto, "Helvetica Neue", "Noto Sans", "DejaVu Sans", sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .4rem; letter-spacing: -.01em; text-wrap: balance; }
h2 { font-size: 1.2rem; margin: 2.75rem 0 .75rem; padding-top: .25rem; }
h3 { font-size: 1rem; margin: 0 0 .35rem; }
p { margin: .4rem 0 .8rem; max-width: 46rem; }
.lead { color: var(--muted); margin: 0 0 1.25rem; }
.muted, figcaption small { color: var(--muted); }
code, pre, .mono { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .84rem; }
code { overflow-wrap: anywhere; }
pre { margin: .5rem 0; padding: .7rem .85rem; background: var(--faint); border-radius: 6px; white-space: pre-wrap;
  overflow-wrap: anywhere; }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; margin: 1.25rem 0 0; font-size: .92rem; }
a { color: var(--accent); text-decoration-thickness: 1px; text-underline-offset: 2px; }
.tiles { display: flex; flex-wrap: wrap; gap: 1px; background: var(--line);
  border: 1px solid var(--line); border-radius: 10px; overflow: hidden; margin: 1.25rem 0; }
.tile { flex: 1 1 8.4rem; background: var(--card); padding: .7rem .9rem .75rem; }
.tile b { display: block; font-size: 1.4rem; font-weight: 600; line-height: 1.3; font-variant-numeric: tabular-nums; }
.tile span { color: var(--muted); font-size: .84rem; display: block; line-height: 1.35; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1rem 1.15rem; margin: 0 0 1rem; }
.card > :last-child { margin-bottom: 0; }
.note { border-left: 4px solid var(--warn); background: var(--warn-soft); border-radius: 0 8px 8px 0; padding: .6rem .9rem;
  margin: .75rem 0; max-width: none; }
.note.bad { border-color: var(--bad); background: var(--bad-soft); }
.note.good { border-color: var(--good); background: var(--good-soft); }
.badge { display: inline-block; font-size: .78rem; line-height: 1.3; padding: .12rem .5rem; border-radius: 99px; background: var(--faint);
  color: var(--ink); margin: 0 .3rem .25rem 0; }
.badge.bad { background: var(--bad-soft); color: var(--bad); }
.badge.warn { background: var(--warn-soft); color: var(--warn); }
.badge.good { background: var(--good-soft); color: var(--good); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(21rem, 100%), 1fr)); gap: 1rem; }
.charts > figure { margin: 0; }
figure { margin: 0 0 1rem; min-width: 0; }
figcaption { font-weight: 600; margin: 0 0 .4rem; display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 .8rem;
  align-items: baseline; }
figcaption small { font-weight: 400; font-size: .84rem; font-variant-numeric: tabular-nums; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { fill: var(--muted); font: 11px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem .9rem; font-size: .82rem; color: var(--muted); margin: .4rem 0 0; padding: 0;
  list-style: none; }
.legend i { display: inline-block; width: .8rem; height: .2rem; border-radius: 1px; margin-right: .35rem; vertical-align: middle; }
.legend i.box { height: .8rem; border-radius: 2px; vertical-align: -.1rem; }
.scroll { overflow-x: auto; }
.scroll td { max-width: 26rem; }
table { border-collapse: collapse; width: max-content; min-width: 100%; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--muted); white-space: nowrap; }
td.n, th.n { text-align: right; white-space: nowrap; }
tr:last-child td { border-bottom: 0; }
td .badge { margin: 0; }
dl { display: grid; grid-template-columns: minmax(6rem, auto) minmax(0, 1fr); gap: .2rem 1rem; margin: .5rem 0; font-size: .92rem; }
dt { color: var(--muted); }
dd { margin: 0; overflow-wrap: anywhere; }
ul { margin: .3rem 0 .8rem; padding-left: 1.2rem; }
details { margin: .6rem 0 0; }
summary { cursor: pointer; color: var(--accent); font-size: .92rem; }
.two { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 22rem); gap: .5rem 1.75rem; }
.bar { display: inline-block; height: .55rem; border-radius: 2px; background: var(--accent); vertical-align: baseline; min-width: 1px; }
.split { display: flex; height: .7rem; border-radius: 3px; overflow: hidden; background: var(--faint); margin: .35rem 0; }
.grid { stroke: var(--line); stroke-width: 1; }
.session { stroke: var(--muted); stroke-width: 1; stroke-dasharray: 2 3; }
.area { opacity: .16; stroke: none; }
.curve { fill: none; stroke-width: 1.75; stroke-linejoin: round; stroke-linecap: round; }
.border { stroke: var(--ink); stroke-width: .8; }
footer { margin-top: 3rem; color: var(--muted); font-size: .86rem; border-top: 1px solid var(--line); padding-top: 1rem; }
@media (max-width: 46rem) {
  main { padding: 1.25rem .9rem 3rem; }
  h1 { font-size: 1.4rem; }
  .two { grid-template-columns: minmax(0, 1fr); }
  .card { padding: .85rem .9rem; }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0; }
  dd { margin-bottom: .4rem; }
}
@media print { details:not([open]) { display: none; } .card { break-inside: avoid; } }
)css";

}  // namespace attnfuzz::report
