"""The hub: huggingface_hub and Seatrial each push to a hub of our own and read what the other pushed; TRL loads tasks from it."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from common import FROZEN, MANIFEST, WORK, files_below, same

TOKEN = "hf_only-for-this-check"
environment = os.environ | {"HUB_TOKEN": TOKEN, "HF_TOKEN": TOKEN}
command = [sys.executable, str(Path(__file__).with_name("hub_server.py")), "--parts", "9000", "--fail", "5"]
server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
address = server.stdout.readline().strip()
os.environ |= {"HF_ENDPOINT": address, "HF_TOKEN": TOKEN, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}
environment |= os.environ

import huggingface_hub  # noqa: E402
from trl.experimental.harbor import HarborSpec  # noqa: E402

PROJECT = FROZEN.parent.parent


def seatrial(*arguments):
    ran = subprocess.run([os.environ["SEATRIAL"], *arguments], env=environment, capture_output=True, text=True)
    if ran.returncode or TOKEN in ran.stdout + ran.stderr:
        sys.exit(f"FAILED seatrial {' '.join(arguments)}: {ran.stdout}{ran.stderr}")
    return ran.stdout + ran.stderr


def plain():
    """The files of the frozen set that a hub keeps: links are in its manifest."""
    files = {str(path.relative_to(FROZEN)): path for path in FROZEN.rglob("*") if path.is_file() and not path.is_symlink()}
    return {name: path.read_bytes() for name, path in files.items()}


def downloaded(repo):
    path = huggingface_hub.snapshot_download(repo, repo_type="dataset", cache_dir=tempfile.mkdtemp(dir=WORK))
    files = files_below(Path(path))
    files.pop(".gitattributes")
    return files


try:
    print("huggingface_hub", huggingface_hub.__version__)
    api = huggingface_hub.HfApi()
    api.create_repo("lab/theirs", repo_type="dataset", private=True)
    api.upload_folder(repo_id="lab/theirs", repo_type="dataset", folder_path=FROZEN)
    same("what huggingface_hub pushed and fetched", downloaded("lab/theirs"), plain())

    print(seatrial("-C", str(PROJECT), "export", "--format", "harbor", "--push", "hf:lab/ours").strip().splitlines()[-1])
    same("what Seatrial pushed and huggingface_hub fetched", downloaded("lab/ours"), plain())
    again = seatrial("-C", str(PROJECT), "export", "--format", "harbor", "--push", "hf:lab/ours")
    same("pushed again", "has all of it" in again, True)
    for repo in ("theirs", "ours"):
        registry = tempfile.mkdtemp(dir=WORK)
        seatrial("register", f"hf:lab/{repo}", "--registry", registry)
        path = Path(seatrial("datasets", "path", MANIFEST["name"], "--registry", registry).strip())
        same(f"registered from {repo}", files_below(path), files_below(FROZEN))
    rows = HarborSpec("lab/ours").train_dataset
    same("tasks that TRL fetches", [Path(path).name for path in rows["task_dir"]], [task["task_id"] for task in MANIFEST["tasks"]])
finally:
    server.kill()
