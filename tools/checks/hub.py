"""Compares the cache of `rustorch pull` with that of huggingface_hub, and kills pulls at random moments.

    pip install huggingface_hub==2.4.0
    cargo build --release
    python tools/checks/hub.py [target/release/rustorch]

Needs no network: a server in this script speaks the hub's protocol. It checks that
- huggingface_hub, offline, finds every file that `rustorch pull` brought, with the right bytes and in its scan of the cache;
- rustorch, offline, finds every file that huggingface_hub brought;
- rustorch waits for the lock of huggingface_hub;
- a pull that is killed (SIGKILL) at 50 random moments leaves nothing unfinished under `snapshots`, and the last one, which is
  not killed, has the right hash.
"""

import argparse
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

KILLS = 50
CHUNK = 8 << 20
COMMIT = hashlib.sha1(b"commit").hexdigest()


def noise(size: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(size)


# Small files are not in LFS. One name has a space and a folder.
REPOS = {
    "maker/Small-GGUF": {
        "Small-Q4_K_M.gguf": noise(300_000, 1),
        "Small-Q8_0.gguf": noise(5 * CHUNK + 17, 2),
        "folder/a b.gguf": noise(700, 3),
        "README.md": b"A model\n",
    },
    "maker/Split-GGUF": {f"Q8_0/Split-Q8_0-{number:05}-of-00003.gguf": noise(20_000 + number, number) for number in (1, 2, 3)},
    "maker/Large-GGUF": {"Large-Q4_K_M.gguf": noise(96 << 20, 4)},
}


class Hub(BaseHTTPRequestHandler):
    """The hub and its file server, which is at `/files`."""

    protocol_version = "HTTP/1.1"
    # Seconds after each 256 KiB of a file.
    pace = 0.0

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/(.+)", path):
            repo, revision = found.groups()
            if self.exists(repo, revision):
                self.send(200, {"Content-Type": "application/json"}, json.dumps(self.info(repo)).encode())
        elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            repo, revision, name = found.groups()
            if self.exists(repo, revision):
                self.resolve(repo, name)
        elif found := re.fullmatch(r"/files/([^/]+/[^/]+)/(.+)", path):
            self.file(REPOS[found[1]][found[2]])
        else:
            self.send(404, {})

    def exists(self, repo: str, revision: str) -> bool:
        if repo not in REPOS:
            self.send(404, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
            return False
        if revision not in ("main", COMMIT):
            self.send(404, {"X-Error-Code": "RevisionNotFound", "X-Error-Message": "Invalid rev id"})
            return False
        return True

    @staticmethod
    def info(repo: str) -> dict:
        def sibling(name: str, data: bytes) -> dict:
            entry = {"rfilename": name, "size": len(data), "blobId": hashlib.sha1(data).hexdigest()}
            if len(data) >= 1000:
                entry["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 135}
            return entry

        siblings = [sibling(name, data) for name, data in REPOS[repo].items()]
        return {"id": repo, "modelId": repo, "sha": COMMIT, "private": False, "gated": False, "tags": [], "siblings": siblings}

    def resolve(self, repo: str, name: str) -> None:
        data = REPOS[repo].get(name)
        if data is None:
            self.send(404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
        elif len(data) >= 1000:
            size, tag = str(len(data)), hashlib.sha256(data).hexdigest()
            linked = {"X-Linked-Size": size, "X-Linked-ETag": f'"{tag}"', "Location": f"/files/{repo}/{name}".replace(" ", "%20")}
            # Another host name is another origin, as that of the real file servers.
            linked["Location"] = f"http://localhost:{self.server.server_port}{linked['Location']}"
            self.send(302, {"X-Repo-Commit": COMMIT, "ETag": '"pointer"', **linked})
        else:
            self.send(200, {"X-Repo-Commit": COMMIT, "ETag": f'"{hashlib.sha1(data).hexdigest()}"'}, data)

    def file(self, data: bytes) -> None:
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if found is None:
            return self.send(200, {}, data)
        start, end = int(found[1]), min(int(found[2] or len(data)), len(data) - 1)
        self.send(206, {"Content-Range": f"bytes {start}-{end}/{len(data)}"}, data[start : end + 1])

    def send(self, status: int, headers: dict, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        try:
            for at in range(0, len(body), 1 << 18):
                self.wfile.write(body[at : at + (1 << 18)])
                if Hub.pace and len(body) > 1 << 18:
                    time.sleep(Hub.pace)
        except OSError:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            raise


class Checks:
    def __init__(self, program: str, endpoint: str, home: Path) -> None:
        self.program, self.home = program, home
        unset = ("HF_", "HUGGING", "RUSTORCH_", "XDG_CACHE_HOME", "OLLAMA_")
        env = {name: value for name, value in os.environ.items() if not name.startswith(unset)}
        self.env = {**env, "HOME": str(home), "HF_ENDPOINT": endpoint, "NO_PROXY": "127.0.0.1,localhost", "HF_HUB_DISABLE_XET": "1"}

    def rustorch(self, cache: Path, *args: str, **env: str) -> str:
        done = subprocess.run(
            [self.program, *args], env={**self.env, "HF_HUB_CACHE": str(cache), **env}, capture_output=True, text=True
        )
        assert done.returncode == 0, f"rustorch {' '.join(args)}: {done.stderr}"
        return done.stdout.strip()

    def python(self, cache: Path, code: str, **env: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code], env={**self.env, "HF_HUB_CACHE": str(cache), **env}, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{code}: {done.stderr}"
        return done.stdout.strip()

    def ours_is_found_by_theirs(self) -> None:
        cache = self.home / "ours"
        pulls = [f"{repo}:{name}" for repo, files in REPOS.items() for name in files if name.endswith(".gguf") and "-of-" not in name]
        for name in [*pulls, "maker/Split-GGUF"]:
            self.rustorch(cache, "pull", name)
        for repo, files in REPOS.items():
            for name, data in files.items():
                if not name.endswith(".gguf"):
                    continue
                code = f"from huggingface_hub import hf_hub_download as d; print(d({repo!r}, {name!r}))"
                path = Path(self.python(cache, code, HF_HUB_OFFLINE="1"))
                assert path.read_bytes() == data, f"{repo}/{name}"
        code = """
import json
from huggingface_hub import scan_cache_dir
info = scan_cache_dir()
assert not info.warnings, info.warnings
print(json.dumps({r.repo_id: [r.nb_files, r.size_on_disk, [sorted(x.refs) for x in r.revisions]] for r in info.repos}))
"""
        scanned = json.loads(self.python(cache, code))
        for repo, files in REPOS.items():
            models = [data for name, data in files.items() if name.endswith(".gguf")]
            assert scanned[repo] == [len(models), sum(map(len, models)), [["main"]]], f"{repo}: {scanned[repo]}"
        # Online, theirs finds ours as well, and brings nothing.
        before = sorted((path, path.lstat().st_mtime_ns) for path in cache.rglob("*") if path.is_file())
        self.python(cache, "from huggingface_hub import hf_hub_download as d; d('maker/Large-GGUF', 'Large-Q4_K_M.gguf')")
        after = sorted((path, path.lstat().st_mtime_ns) for path in cache.rglob("*") if path.is_file())
        new = set(after) - set(before)
        assert all(".locks" in str(path) or "blobs" not in str(path) for path, _ in new), new

    def theirs_is_found_by_ours(self) -> None:
        cache = self.home / "theirs"
        for repo, files in REPOS.items():
            names = list(files)
            self.python(cache, f"from huggingface_hub import hf_hub_download as d\nfor name in {names!r}: d({repo!r}, name)")
            for name, data in files.items():
                if not name.endswith(".gguf") or "-of-" in name:
                    continue
                path = Path(self.rustorch(cache, "where", f"{repo}:{name}", HF_HUB_OFFLINE="1"))
                assert path.read_bytes() == data, f"{repo}/{name}"
        split = self.rustorch(cache, "where", "maker/Split-GGUF:Q8_0", HF_HUB_OFFLINE="1")
        assert split.endswith("Split-Q8_0-00001-of-00003.gguf"), split
        listed = json.loads(self.rustorch(cache, "list", "--json", HF_HUB_OFFLINE="1"))
        assert len(listed) == 5, listed
        # And online, nothing comes again.
        pulled = json.loads(self.rustorch(cache, "pull", "maker/Large-GGUF", "--json"))
        assert pulled["files"][0]["transferred"] == 0, pulled

    def locks_are_shared(self) -> None:
        cache = self.home / "locks"
        tag = hashlib.sha256(REPOS["maker/Small-GGUF"]["Small-Q4_K_M.gguf"]).hexdigest()
        lock = cache / ".locks" / "models--maker--Small-GGUF" / f"{tag}.lock"
        lock.parent.mkdir(parents=True)
        code = f"""
import sys
from huggingface_hub.utils import WeakFileLock
with WeakFileLock({str(lock)!r}):
    print("held", flush=True)
    sys.stdin.readline()
"""
        env = {**self.env, "HF_HUB_CACHE": str(cache)}
        holder = subprocess.Popen([sys.executable, "-c", code], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert holder.stdout.readline() == "held\n"
        pull = subprocess.Popen([self.program, "pull", "maker/Small-GGUF"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert "waiting" in pull.stderr.readline()
        assert not list((cache / "models--maker--Small-GGUF" / "snapshots").rglob("*.gguf"))
        holder.communicate("\n")
        assert pull.communicate()[0].strip().endswith("Small-Q4_K_M.gguf") and pull.returncode == 0

    def kills_do_no_harm(self, seed: int) -> None:
        cache, moments = self.home / "killed", random.Random(seed)
        repo = cache / "models--maker--Large-GGUF"
        data = REPOS["maker/Large-GGUF"]["Large-Q4_K_M.gguf"]
        env = {**self.env, "HF_HUB_CACHE": str(cache)}
        Hub.pace, begin = 0.001, time.monotonic()
        self.rustorch(cache, "pull", "maker/Large-GGUF")
        whole = time.monotonic() - begin
        self.rustorch(cache, "rm", "maker/Large-GGUF", "--yes")
        killed = continued = 0
        while killed < KILLS:
            # Fast enough that some kills hit the hash and the rename.
            Hub.pace = moments.choice([0.0, 0.0, 0.001, 0.01])
            pull = subprocess.Popen([self.program, "pull", "maker/Large-GGUF"], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            time.sleep(moments.uniform(0.0, whole))
            pull.send_signal(signal.SIGKILL)
            pull.wait()
            pull.stdout.close()
            killed += pull.returncode == -signal.SIGKILL
            journals = [path.read_text() for path in (repo / "blobs").glob("*.journal")]
            continued += any(text.count("\n") > 1 for text in journals)
            for path in (repo / "snapshots").rglob("*"):
                if not path.is_dir():
                    assert path.read_bytes() == data, f"after {killed} kills, {path} is visible with other bytes"
            if pull.returncode == 0 or list((repo / "snapshots").rglob("*.gguf")):
                # It was finished: begin again.
                self.rustorch(cache, "rm", "maker/Large-GGUF", "--yes")
        assert continued >= KILLS // 5, f"only {continued} of {killed} kills hit a transfer"
        Hub.pace = 0.0
        path = Path(self.rustorch(cache, "pull", "maker/Large-GGUF"))
        assert hashlib.sha256(path.read_bytes()).digest() == hashlib.sha256(data).digest()
        assert [blob.name for blob in (repo / "blobs").iterdir()] == [hashlib.sha256(data).hexdigest()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", default="target/release/rustorch")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    server = Server(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as home:
        checks = Checks(str(Path(args.program).resolve()), f"http://127.0.0.1:{server.server_port}", Path(home))
        checks.ours_is_found_by_theirs()
        print("huggingface_hub finds what rustorch pulled")
        checks.theirs_is_found_by_ours()
        print("rustorch finds what huggingface_hub pulled")
        checks.locks_are_shared()
        print("rustorch waits for the lock of huggingface_hub")
        checks.kills_do_no_harm(args.seed)
        print(f"{KILLS} kills left nothing unfinished, and the file came whole")


if __name__ == "__main__":
    main()
