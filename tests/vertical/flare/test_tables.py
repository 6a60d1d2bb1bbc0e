"""Tables of a site: the same from every format, in the order of their ids, and refused in words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reticent.vertical.flare.tables import read_table


def test_rows_are_put_in_the_order_of_their_ids(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("who,x,y,z\nb,1,2,0.5\na,3,4,-0.5\n")
    table = read_table(path, id_column="who", label_column="z")
    assert table.names == ("x", "y")
    assert table.ids == ["a", "b"]
    np.testing.assert_array_equal(table.features, [[3, 4], [1, 2]])
    np.testing.assert_array_equal(table.labels, [-0.5, 0.5])


def test_all_formats_hold_the_same_table(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"who": ["b", "c", "a"], "x": [1.5, 2.0, 3.0], "y": [1, 2, 3]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", **{name: frame[name].to_numpy(dtype=kind) for name, kind in
             (("who", "U1"), ("x", float), ("y", float))})  # fmt: skip
    read = [read_table(tmp_path / f"t.{end}", id_column="who") for end in ("csv", "parquet", "npz")]
    for table in read:
        assert table.ids == ["a", "b", "c"]
        np.testing.assert_array_equal(table.features, [[3, 3], [1.5, 1], [2, 2]])
        assert table.labels is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("who,x\na,1\na,2\n", "twice"),
        ("who,x,x\na,1,2\n", "twice"),
        ("who,x\na,word\n", "not a number"),
        ("who,x\na,nan\n", "finite"),
        ("who,x\na,1,2\n", "line 2"),
        ("who\na\n", "at least one"),
        ("name,x\na,1\n", "'who'"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        read_table(path, id_column="who")
