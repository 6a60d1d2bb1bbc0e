"""The papers' figures and tables, measured again: as published, corrected, and as this library does it.

``reticent reproduce`` lists them; each is one file here, and :mod:`reticent.papers.figures.produce` runs them.

"Published" is the paper's own amount of noise with its
algorithm's slips mended, since as printed several do not run or do not learn (docs/errata.md); the
privacy that this noise really gives stands beside it, and is seldom what the paper says.
"""
