"""The look of every page: light and dark, for screens, phones and paper; nothing is fetched."""

STYLE = """
:root { color-scheme: light dark; --paper: #fdfdfb; --ink: #1f2426; --soft: #5d676b;
  --line: #e2e4e0; --panel: #f4f5f1; --accent: #0b7268; }
@media (prefers-color-scheme: dark) { :root { --paper: #15191a; --ink: #e6e9e7; --soft: #9aa5a6;
  --line: #2d3436; --panel: #1d2324; --accent: #58c4b4; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { max-width: 58rem; margin: 0 auto; padding: 3.5rem 1.5rem 5rem; }
h1 { font-size: 2.1rem; line-height: 1.15; font-weight: 650; letter-spacing: -.02em;
  margin: .2rem 0 .6rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; font-weight: 650; margin: 4rem 0 1rem; padding-top: 1.1rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1rem; font-weight: 600; margin: 1.8rem 0 .5rem; }
p { margin: .5rem 0; max-width: 44rem; }
.kind { color: var(--accent); font-weight: 600; font-size: .85rem; margin: 0; }
.lead { font-size: 1.15rem; }
.soft, figcaption, footer { color: var(--soft); font-size: .9rem; }
.soft { overflow-wrap: anywhere; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.2rem, 1fr));
  gap: 1.4rem 1.2rem; margin: 2rem 0 0; padding: 1.4rem 0 0; border-top: 1px solid var(--line); }
.tiles dt { color: var(--soft); font-size: .85rem; }
.tiles dd { margin: 0; font-size: 1.6rem; line-height: 1.25; font-weight: 600;
  font-variant-numeric: tabular-nums; letter-spacing: -.01em; }
.findings { list-style: none; margin: 1.4rem 0 0; padding: 0; display: grid; gap: 1.6rem 2.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr)); align-items: start; }
.findings li { padding: .1rem 0 .1rem 1.1rem; min-width: 0;
  border-left: 3px solid var(--line); overflow-wrap: anywhere; }
.findings li.warning { border-color: var(--accent); }
.findings p { margin: .15rem 0; }
.tag { font-size: .82rem; color: var(--soft); }
.tag b { font-weight: 650; color: var(--ink); }
.warning .tag b { color: var(--accent); }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(20rem, 100%), 1fr));
  gap: 1.5rem 2.5rem; }
figure { margin: 1.2rem 0; min-width: 0; }
figcaption { margin-bottom: .5rem; }
figcaption b { color: var(--ink); font-weight: 600; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .92rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .42rem .9rem .42rem 0; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; vertical-align: top; }
th { font-weight: 500; color: var(--soft); }
tbody th { color: var(--ink); }
th:first-child, td.words { text-align: left; }
th:last-child, td:last-child { padding-right: 0; }
td.words, tbody th { white-space: normal; overflow-wrap: anywhere; }
tbody th { min-width: 5.5rem; }
th.model { min-width: 8rem; width: 28%; overflow-wrap: break-word; }
td.meter { width: 38%; min-width: 7rem; vertical-align: middle; }
svg { display: block; width: 100%; overflow: visible; }
svg text { font-size: 11.5px; fill: var(--soft); font-variant-numeric: tabular-nums; }
svg text.name { fill: var(--ink); font-weight: 600; }
.bar, .dot { fill: var(--accent); }
.rail { fill: var(--panel); }
.grid { stroke: var(--line); }
.curve { stroke: var(--accent); stroke-width: 2; }
.mark { stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 4 3; }
.part.train { fill: var(--accent); }
.part.val { fill: var(--accent); opacity: .6; }
.part.test { fill: var(--accent); opacity: .35; }
.part.profile { fill: var(--accent); opacity: .15; }
.part.none { fill: var(--line); }
.cold { fill: var(--ink); }
.key { display: inline-block; width: .7rem; height: .7rem; margin: 0 .35rem 0 0; }
.legend { margin-top: .6rem; }
.legend span { margin-right: 1.2rem; white-space: nowrap; }
nav ul { list-style: none; margin: 1.8rem 0 0; padding: 0; display: flex; flex-wrap: wrap;
  gap: .3rem 1.4rem; font-size: .9rem; }
a { color: var(--accent); text-underline-offset: .2em; }
h4, h5 { font-size: .95rem; font-weight: 600; margin: 1.6rem 0 .4rem; }
details { margin: .6rem 0; padding: .5rem 0; border-bottom: 1px solid var(--line); }
summary { cursor: pointer; font-weight: 500; overflow-wrap: anywhere; }
img { display: block; min-width: 34rem; max-width: 100%; border-radius: 4px; background: #fff; }
td b { font-weight: 700; }
footer { margin-top: 4rem; padding-top: 1.1rem; border-top: 1px solid var(--line); }
@media (max-width: 34rem) { main { padding: 2rem 1.1rem 3rem; } h1 { font-size: 1.7rem; }
  h2 { margin-top: 2.8rem; } td.meter { min-width: 5rem; } .tiles dd { font-size: 1.35rem; } }
@media print { :root { --paper: #fff; --ink: #111; --soft: #555; --line: #ddd; --panel: #f2f2f2;
  --accent: #0b7268; } body { font-size: 10.5pt; } main { max-width: none; padding: 0; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  h2 { margin-top: 1.8rem; break-after: avoid; } h3, h4, h5 { break-after: avoid; }
  figure, tr, li, .tiles { break-inside: avoid; } .scroll { overflow: visible; }
  img { min-width: 0; } nav { display: none; } thead { display: table-header-group; }
  details { border: 0; padding: 0; } summary { list-style: none; break-after: avoid; }
  details::details-content { content-visibility: visible; block-size: auto; } }
"""
