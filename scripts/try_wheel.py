"""Install a wheel into a fresh environment and use it from there, away from the checkout."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

LEARN = """
import numpy as np, reticent
rng = np.random.default_rng(0)
X = rng.normal(size=(500, 3)) / 4
model = reticent.PrivateLogisticRegression(epsilon=1.0).fit(X, X[:, 0] > 0)
print(model.guarantee_)
print(reticent.__file__)
"""


def main(wheel: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, f"{Path(wheel).resolve()}[cli]"], check=True, cwd=folder)
        out = subprocess.run(
            [python, "-c", LEARN], check=True, cwd=folder, capture_output=True, text=True
        ).stdout
        if folder not in out:
            raise SystemExit(f"the wheel was not what was imported: {out}")
        print(out.splitlines()[0])
        subprocess.run([python, "-m", "reticent", "--version"], check=True, cwd=folder)


if __name__ == "__main__":
    main(sys.argv[1])
