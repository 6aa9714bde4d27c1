"""Writes the Parquet files of this directory: python3 make.py (pyarrow 26 wrote the ones that are kept)."""

import pyarrow as pa
import pyarrow.parquet as pq


def instances(text):
    """Two instances; the first has no tests that pass either way, the second no statement."""
    columns = {
        "instance_id": (["o__a.0123abcd.pr_1", "o__a.0123abcd.pr_2"], text),
        "patch": (["--- a/x\n+++ b/x\n", "é\0\u2028"], text),
        "FAIL_TO_PASS": ([["t.py::a", "t.py::b"], ["t.py::c"]], pa.list_(text)),
        "PASS_TO_PASS": ([[], ["t.py::d"]], pa.list_(text)),
        "image_name": (["i1", "i1"], text),
        "repo": (["swesmith/o__a.0123abcd"] * 2, text),
        "problem_statement": (["repair it", None], text),
    }
    return pa.table({name: pa.array(values, type=kind) for name, (values, kind) in columns.items()})


def unpacked(table):
    """The table with plain texts cast to dictionaries, which lists cannot hold in every version."""
    names = [name for name in table.column_names if not name.isupper()]
    for name in names:
        at = table.column_names.index(name)
        table = table.set_column(at, name, table.column(name).dictionary_encode())
    return table


pq.write_table(instances(pa.string()), "string.parquet", compression="snappy")
pq.write_table(instances(pa.large_string()), "large-string.parquet", compression="zstd")
pq.write_table(instances(pa.string_view()), "string-view.parquet", compression="gzip")
pq.write_table(unpacked(instances(pa.string())), "dictionary.parquet", compression="none")
pq.write_table(
    instances(pa.string()),
    "old-lists.parquet",
    use_compliant_nested_type=False,
    data_page_version="2.0",
    use_dictionary=False,
    compression="zstd",
)
for codec in ["brotli", "lz4"]:
    pq.write_table(instances(pa.string()), f"{codec}.parquet", compression=codec)

# Lists as JSON inside texts, columns of an earlier revision, another order, and none of problem_statement.
encoded = instances(pa.string()).to_pydict()
encoded["FAIL_TO_PASS"] = ['["t.py::a", "t.py::b"]', "['t.py::c']"]
encoded["PASS_TO_PASS"] = ["[]", "[]"]
encoded["problem_statement"] = ["repair it", "repair it"]
encoded["base_commit"] = ["0" * 40] * 2
encoded["created_at"] = [pa.scalar(0, pa.timestamp("us")).as_py()] * 2
pq.write_table(pa.table(dict(sorted(encoded.items(), reverse=True))), "encoded-lists.parquet")

message = pa.list_(pa.struct([("content", pa.string()), ("role", pa.string())]))
runs = pa.table(
    {
        "messages": pa.array([[{"content": "x" * 5000, "role": "user"}], [], None, [], [], []], message),
        "instance_id": ["a", "a", "b", None, "c", "d"],
        "resolved": pa.array([True, False, None, True, True, False]),
        "model": pa.array([b"m1", None, b"m1", b"m1", b"\xff\xfe", b""], pa.binary()),
        "traj_id": ["r1", "r2", "r3", "r4", "r5", "r6"],
    }
)
pq.write_table(runs, "runs.parquet", row_group_size=2)
pq.write_table(
    pa.table({"traj_id": ["r7"], "model": pa.nulls(1), "resolved": [True], "instance_id": ["a"]}),
    "null-model.parquet",
)
pq.write_table(runs.slice(0, 0), "empty.parquet")


def means(name, values, kind):
    keys = [f"k{n}" for n in range(len(values))]
    table = pa.table({"instance_id_or_commit_hash": keys, "reward_mean": pa.array(values, kind)})
    pq.write_table(table, f"means-{name}.parquet")


means("double", [0.9999999999999999, 1.0, 1 / 7], pa.float64())
means("float", [0.5, 1.0, 0.0], pa.float32())
means("whole", [0, 1, None], pa.int8())
means("nan", [0.5, float("nan")], pa.float64())
means("decimal", [0, 1], pa.decimal128(5, 2))
