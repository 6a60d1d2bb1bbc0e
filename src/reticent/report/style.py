"""The style sheet of pages, for light and dark mode, with the project's palette in both.

The dark palette is not the light one on black. Its colours are lighter versions in the same order, and still
distinguishable for colour-blind readers.
"""

SHEET = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --card: #f7f8fa; --ink: #1b1f24; --muted: #667080; --line: #dfe3e8; --grid: #c9ced6;
  --private: #00684a; --private-paper: #e3f4ec; --look: #8a4b00; --look-paper: #fdf0dd;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #b8598f; --c4: #2d8bc9; --c5: #bb7c00; --c6: #555555;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171b; --card: #1d2127; --ink: #e8eaed; --muted: #9aa4b2; --line: #333a44; --grid: #4a525e;
    --private: #6fd6ac; --private-paper: #12322a; --look: #f2b866; --look-paper: #3a2a12;
    --c0: #5cb3ea; --c1: #ff9455; --c2: #3fd0a4; --c3: #e79cc6; --c4: #9bd4ff; --c5: #f5bd4a; --c6: #b5bcc6;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
header { border-bottom: 1px solid var(--line); margin-bottom: 1.75rem; padding-bottom: 1.25rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .35rem; letter-spacing: -.01em; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem; }
p { margin: .6rem 0; max-width: 48rem; }
.subtitle { color: var(--muted); font-size: 1.05rem; margin: 0; }
.facts {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)); gap: .75rem;
  margin: 1.25rem 0;
}
.facts div { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .7rem .9rem; }
.facts dt { color: var(--muted); font-size: .82rem; }
.facts dd {
  margin: .1rem 0 0; font-size: 1.15rem; font-weight: 600; font-variant-numeric: tabular-nums;
  overflow-wrap: anywhere;
}
figure {
  margin: 1.25rem 0; background: var(--card); border: 1px solid var(--line); border-radius: .75rem;
  padding: 1rem;
}
figure svg { display: block; width: 100%; height: auto; max-height: 28rem; color: var(--ink); }
figure svg text {
  fill: currentColor;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif !important;
}
figcaption { color: var(--muted); font-size: .92rem; margin-top: .6rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .95rem; }
caption { caption-side: bottom; text-align: left; color: var(--muted); font-size: .92rem; padding-top: .5rem; }
th, td { text-align: left; padding: .45rem .7rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--muted); font-size: .85rem; }
td:first-child { white-space: nowrap; }
td.number, th.number { text-align: right; white-space: nowrap; }
.tag {
  display: inline-block; font-size: .75rem; font-weight: 600; border-radius: 1rem;
  padding: .1rem .6rem; margin-right: .4rem; vertical-align: .08em;
}
.private { color: var(--private); background: var(--private-paper); }
.diagnostic { color: var(--look); background: var(--look-paper); }
.guarantee {
  border-left: 4px solid var(--private); background: var(--private-paper);
  border-radius: 0 .6rem .6rem 0; padding: .8rem 1.1rem; margin: 1rem 0;
}
.guarantee p { margin: .25rem 0; }
.caveat { border-left-color: var(--look); background: var(--look-paper); }
.split { display: grid; grid-template-columns: repeat(auto-fit, minmax(18rem, 1fr)); gap: 1rem; }
.split section {
  background: var(--card); border: 1px solid var(--line); border-radius: .75rem;
  padding: .9rem 1.1rem;
}
.split h3 { font-size: 1rem; margin: 0 0 .4rem; }
ul { margin: .4rem 0; padding-left: 1.2rem; }
pre, code { font: .88rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
pre {
  background: var(--card); border: 1px solid var(--line); border-radius: .6rem;
  padding: .8rem 1rem; overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere;
}
details > summary { cursor: pointer; color: var(--muted); }
footer {
  margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; color: var(--muted);
  font-size: .88rem;
}
@media (max-width: 600px) {
  .drawing { overflow-x: auto; }
  .drawing svg { min-width: 34rem; }
}
@media print { main { max-width: none; padding: 0; } figure, tr { break-inside: avoid; } }
"""
