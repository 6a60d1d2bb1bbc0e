"""Where decisions live: project, minimise a linear function, minimise it locally.

The one thing a reader would get wrong: a set object holds no data and no state, so one object may
serve many learners; names are loaded when first used, so that importing the package stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit.sets import kernels
    from tacit.sets.base import (
        ConvexSet,
        LocalLinearMinimizerUnavailable,
        ProjectionUnavailable,
        VerticesUnavailable,
    )
    from tacit.sets.base_polytope import BasePolytope, NotSubmodular
    from tacit.sets.birkhoff import Birkhoff
    from tacit.sets.box import Box, LinfBall
    from tacit.sets.contract import ContractError, Report, check
    from tacit.sets.ellipsoid import Ellipsoid
    from tacit.sets.flow import FlowPolytope
    from tacit.sets.hypersimplex import HyperSimplex
    from tacit.sets.k_sparse_ball import KSparseBall
    from tacit.sets.l1_ball import L1Ball
    from tacit.sets.l2_ball import L2Ball
    from tacit.sets.nuclear_ball import NuclearBall
    from tacit.sets.partition_matroid import PartitionMatroid
    from tacit.sets.polyhedron import Polyhedron
    from tacit.sets.polytope import Polytope
    from tacit.sets.product import Product
    from tacit.sets.simplex import Simplex
    from tacit.sets.spanning_tree import SpanningTreePolytope
    from tacit.sets.spectrahedron import Spectrahedron
    from tacit.sets.whole_space import WholeSpace

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
    "Report": "contract",
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
    "Report",
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
        return importlib.import_module("tacit.sets.kernels")
    if name in _HOME:
        return getattr(importlib.import_module(f"tacit.sets.{_HOME[name]}"), name)
    raise AttributeError(f"module 'tacit.sets' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
