"""verl: RLHFDataset on the prompts."""

import importlib.metadata
import tempfile

from common import EXPORTS, SPLITS, ids_of, instruction, same, tokenizer
from omegaconf import OmegaConf
from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

print("verl", importlib.metadata.version("verl"))
with tempfile.TemporaryDirectory() as cache:
    config = OmegaConf.create(
        {"max_prompt_length": 1 << 20, "filter_overlong_prompts_workers": 1, "cache_dir": cache, "return_raw_chat": True}
    )
    for split in SPLITS:
        rows = RLHFDataset(str(EXPORTS / "verl" / f"{split}.parquet"), tokenizer(), config)
        batch = collate_fn([rows[n] for n in range(len(rows))])
        same(f"{split}: ids", [extra["task_id"] for extra in batch["extra_info"]], ids_of(split))
        same(f"{split}: prompts", [chat[0]["content"] for chat in batch["raw_prompt"]], [instruction(id) for id in ids_of(split)])
        same(f"{split}: indices", [int(index) for index in batch["index"]], list(range(len(ids_of(split)))))
    # All splits have one schema, so they can be read as one.
    files = [str(EXPORTS / "verl" / f"{split}.parquet") for split in SPLITS]
    same("all splits at once", len(RLHFDataset(files, tokenizer(), config)), sum(len(ids_of(split)) for split in SPLITS))
