"""The papers' figures and tables, measured again: as published, corrected, and with this library's defaults.

``reticent reproduce`` lists them; each is one file here, and :mod:`reticent.papers.figures.produce` runs them.
"Published" is the paper's own amount of noise in a corrected algorithm, since several algorithms do not run or do not
learn as printed (docs/errata.md); the true guarantee of this noise is stated next to it, and rarely equals the paper's
claim.
"""
