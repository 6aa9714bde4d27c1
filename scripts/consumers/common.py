"""What every check needs: the frozen set as it is, a tokenizer made on the spot, and lines that say what was found."""

import json
import sys
from pathlib import Path

FROZEN, EXPORTS, WORK = (Path(argument).resolve() for argument in sys.argv[1:4])
MANIFEST = json.loads((FROZEN / "manifest.json").read_text())
SPLITS = [split for split in ("train", "validation", "test") if MANIFEST["counts"]["splits"].get(split)]


def tasks_of(split):
    """The tasks of a split in the manifest's order."""
    return [task for task in MANIFEST["tasks"] if task["split"] == split]


def ids_of(split):
    return [task["task_id"] for task in tasks_of(split)]


def instruction(task_id):
    return (FROZEN / "tasks" / task_id / "instruction.md").read_text()


def files_below(directory):
    """The content of every file below a directory, links followed, by relative path."""
    files = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def same(what, found, expected):
    """Ends the check unless both are equal; says so otherwise."""
    if found != expected:
        sys.exit(f"FAILED {what}:\n  found    {str(found)[:500]}\n  expected {str(expected)[:500]}")
    shown = len(found) if hasattr(found, "__len__") and not isinstance(found, str) else found
    print(f"ok  {what}: {shown}")


def tokenizer():
    """A tokenizer with a chat template that nothing has to be downloaded for: every byte is a token."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*alphabet, "<unk>", "<pad>", "<eos>"])}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast = PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", pad_token="<pad>", eos_token="<eos>")
    fast.chat_template = (
        "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    return fast
