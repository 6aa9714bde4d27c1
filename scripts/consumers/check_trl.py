"""TRL: HarborSpec on the Harbor export of each split, and on the frozen set itself, which has the layout of a repository on the hub."""

import importlib.metadata
from pathlib import Path

from common import EXPORTS, FROZEN, MANIFEST, SPLITS, ids_of, same
from trl.experimental.harbor import HarborSpec

print("trl", importlib.metadata.version("trl"))
for split in SPLITS:
    rows = HarborSpec(str(EXPORTS / "harbor" / split)).train_dataset
    same(f"{split}: ids", [Path(path).name for path in rows["task_dir"]], ids_of(split))
    same(f"{split}: indices", rows["task_index"][:], list(range(len(ids_of(split)))))
rows = HarborSpec(str(FROZEN)).train_dataset
same("the frozen set", [Path(path).name for path in rows["task_dir"]], [task["task_id"] for task in MANIFEST["tasks"]])
