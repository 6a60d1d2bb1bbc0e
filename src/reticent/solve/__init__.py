"""Optimisers that end with a certificate.

They take plain arrays, functions and sets, and know nothing of losses, budgets or noise. A method is a generator of
points, and its caller decides by a certificate when a point is good enough: :func:`reticent.solve.search.follow` by a
duality gap (the best fixed decision in hindsight), ``reticent.erm.minimise`` by a proved distance from the minimiser.

==================  ====================================================================
``objective``       a sum of losses of linear predictors, a quadratic and a linear term, and the set
``certificate``     duality gaps, and distances from a minimiser that include rounding
``search``          a run with duality gaps: best point, best bound, when to stop
``newton``          Newton's method in the whole space, and proximal Newton on a set
``quadratic``       a quadratic over a set, to a proved gap
``ball``            a quadratic over a Euclidean ball
``accelerated``     accelerated projected gradients
``corrective``      fully corrective Frank-Wolfe
``barrier``         losses with kinks, by a central path
``bundle``          any convex function, by cutting planes
==================  ====================================================================

Considered: HiGHS and Clarabel solve the quadratic programmes to 1e-8, but give no bound for the set as the library
defines it (by its linear minimiser), and have no form for nuclear balls, flows, spanning trees or user-defined sets.
SciPy finds roots, factors matrices and runs conjugate gradients.
"""
