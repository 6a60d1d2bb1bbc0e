"""Small simulations and exact calculations behind docs/errata.md, one module a paper.

Everything here is plain NumPy, SciPy and mpmath, written from the papers' own lines, as printed and as
corrected. ``figures()`` of each module returns the numbers that the page quotes, by the entry's name.

"printed" functions are wrong on purpose. They follow the paper to the letter, and nothing outside
this folder may use them.
"""
