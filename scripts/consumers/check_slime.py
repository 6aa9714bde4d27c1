"""slime: its data set is not on the package index; it reads lines with pandas and takes these keys, which is done here in the same way."""

import pandas
from common import EXPORTS, SPLITS, ids_of, instruction, same

print("pandas", pandas.__version__, "as slime uses it")
for split in SPLITS:
    frame = pandas.read_json(EXPORTS / "slime" / f"{split}.jsonl", lines=True, dtype={"label": str})
    rows = [row.to_dict() for _, row in frame.iterrows()]
    same(f"{split}: labels", [row["label"] for row in rows], ids_of(split))
    same(f"{split}: prompts", [row["prompt"] for row in rows], [instruction(id) for id in ids_of(split)])
    for row in rows:
        metadata = row["metadata"]
        script = (metadata.get("remote_env_info") or {}).get("f2p_script")
        ways = [way for way in (metadata.get("swepro"), metadata.get("eval_cmd"), script) if way]
        same(f"{split}: one way to grade {row['label'][:30]}…", len(ways), 1)
        missing = [key for key in ("image", "workdir", "problem_statement") if not metadata.get(key)]
        same(f"{split}: nothing is missing", missing, [])
