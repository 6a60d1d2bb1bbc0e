"""Ask pip-audit for known vulnerabilities of what is installed, and say how much of it could be asked about.

    python scripts/vulnerabilities.py

pip-audit succeeds where the database of advisories knows none of the packages, as behind a mirror of the package index;
here that counts as a failure, since nothing was audited.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any


def verdict(packages: Sequence[dict[str, Any]]) -> tuple[list[str], bool]:
    """What to print of pip-audit's list of packages, and whether all is well."""
    asked = [package for package in packages if "skip_reason" not in package]
    known = [
        f"{package['name']} {package['version']}: {flaw['id']}, mended in "
        f"{', '.join(flaw['fix_versions']) or 'no version'}"
        for package in asked
        for flaw in package["vulns"]
    ]
    words = f"{len(asked)} of {len(packages)} packages audited, {len(known)} known vulnerabilities"
    return [*known, words], bool(asked) and not known


def main() -> int:
    command = [sys.executable, "-m", "pip_audit", "--local", "--skip-editable", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        print(done.stdout + done.stderr)
        return 1
    lines, well = verdict(packages)
    print("\n".join(lines))
    return int(not well)


if __name__ == "__main__":
    sys.exit(main())
