"""Feasible sets: project onto them, minimise a linear function over them, or minimise it near a point.

A set object has no data and no state, so one object may serve many learners. Names are loaded when they are first
used, which keeps the import of the package fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reticent.sets import kernels
    from reticent.sets.base import (
        ConvexSet,
        LocalLinearMinimizerUnavailable,
        ProjectionUnavailable,
        VerticesUnavailable,
    )
    from reticent.sets.base_polytope import BasePolytope, NotSubmodular
    from reticent.sets.birkhoff import Birkhoff
    from reticent.sets.box import Box, LinfBall
    from reticent.sets.contract import CheckReport, ContractError, check
    from reticent.sets.ellipsoid import Ellipsoid
    from reticent.sets.flow import FlowPolytope
    from reticent.sets.hypersimplex import HyperSimplex
    from reticent.sets.k_sparse_ball import KSparseBall
    from reticent.sets.l1_ball import L1Ball
    from reticent.sets.l2_ball import L2Ball
    from reticent.sets.nuclear_ball import NuclearBall
    from reticent.sets.partition_matroid import PartitionMatroid
    from reticent.sets.polyhedron import Polyhedron
    from reticent.sets.polytope import Polytope
    from reticent.sets.product import Product
    from reticent.sets.simplex import Simplex
    from reticent.sets.spanning_tree import SpanningTreePolytope
    from reticent.sets.spectrahedron import Spectrahedron
    from reticent.sets.whole_space import WholeSpace

_HOME = {
    "BasePolytope": "base_polytope",
    "Birkhoff": "birkhoff",
    "Box": "box",
    "ContractError": "contract",
    "ConvexSet": "base",
    "Ellipsoid": "ellipsoid",
    "FlowPolytope": "flow",
    "HyperSimplex": "hypersimplex",
    "KSparseBall": "k_sparse_ball",
    "L1Ball": "l1_ball",
    "L2Ball": "l2_ball",
    "LinfBall": "box",
    "LocalLinearMinimizerUnavailable": "base",
    "NotSubmodular": "base_polytope",
    "NuclearBall": "nuclear_ball",
    "PartitionMatroid": "partition_matroid",
    "Polyhedron": "polyhedron",
    "Polytope": "polytope",
    "Product": "product",
    "ProjectionUnavailable": "base",
    "CheckReport": "contract",
    "Simplex": "simplex",
    "SpanningTreePolytope": "spanning_tree",
    "Spectrahedron": "spectrahedron",
    "VerticesUnavailable": "base",
    "WholeSpace": "whole_space",
    "check": "contract",
}

__all__ = [
    "BasePolytope",
    "Birkhoff",
    "Box",
    "CheckReport",
    "ContractError",
    "ConvexSet",
    "Ellipsoid",
    "FlowPolytope",
    "HyperSimplex",
    "KSparseBall",
    "L1Ball",
    "L2Ball",
    "LinfBall",
    "LocalLinearMinimizerUnavailable",
    "NotSubmodular",
    "NuclearBall",
    "PartitionMatroid",
    "Polyhedron",
    "Polytope",
    "Product",
    "ProjectionUnavailable",
    "Simplex",
    "SpanningTreePolytope",
    "Spectrahedron",
    "VerticesUnavailable",
    "WholeSpace",
    "check",
    "kernels",
]


def __getattr__(name: str) -> Any:
    if name == "kernels":
        return importlib.import_module("reticent.sets.kernels")
    if name in _HOME:
        return getattr(importlib.import_module(f"reticent.sets.{_HOME[name]}"), name)
    raise AttributeError(f"module 'reticent.sets' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
