"""Makes the goldens of the demo model in crates/testkit/goldens, from its files and its corpus.

    python demo.py            # a few minutes

    demo.tokens.npy      uint32 [16, 256]   the beginnings of held-out chats, as llama.cpp tokenizes them
    demo-<format>.*.npy                     as make.py's, over these sequences
    demo.json                               greedy answers by exact.py, and by llama.cpp where it says the same

An answer is kept where at every token the best logit is well ahead of the next, so that rounding decides
nothing and every engine has to say the same, right or wrong.
"""

import json
import sys
import zlib
from pathlib import Path
from random import Random

import jinja2
import llama_cpp as lib
import numpy as np

from compare import distance
from exact import Model
from llama import Llama
from make import OUT, POSITIONS, SEQUENCES, columns

DEMO = Path(__file__).parents[2] / "demo-model"
sys.path.insert(0, str(DEMO))
from corpus import chats  # noqa: E402
from corpus.core import HELD_OUT  # noqa: E402

FORMATS = ["f16", "q6_k"]
SEED, ANSWERS, LONGEST = 1, 32, 48
# Least distance of the best logit from the next.
AHEAD = 0.5


def tokenize(llama: Llama, text: str) -> list[int]:
    """With BOS, and special tokens parsed as such."""
    raw = text.encode()
    room = (lib.llama_token * (len(raw) + 8))()
    vocab = lib.llama_model_get_vocab(llama.model)
    n = lib.llama_tokenize(vocab, raw, len(raw), room, len(room), True, True)
    assert n > 0
    return list(room[:n])


def messages(document: dict, turns: int | None = None) -> list[dict]:
    """The document's chat, or its first turns."""
    said = [{"role": "system", "content": document["system"]}] if "system" in document else []
    for user, assistant in document["turns"][:turns]:
        said += [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]
    return said


def greedy(model: Model, prompt: list[int], eos: int) -> list[int] | None:
    """The answer, unless two tokens are near each other somewhere or it does not end."""
    tokens = list(prompt)
    for _ in range(LONGEST):
        logits = model.logits(np.array([tokens]))[0, -1]
        second, best = np.sort(logits)[-2:]
        if best - second < AHEAD:
            return None
        tokens.append(int(logits.argmax()))
        if tokens[-1] == eos:
            return tokens[len(prompt) :]
    return None


def main() -> None:
    paths = {name: str(DEMO / f"rustorch-demo-{name}.gguf") for name in FORMATS}
    models = {name: Model(path) for name, path in paths.items()}
    llama = Llama(paths["q6_k"], 1024)
    meta = models["q6_k"].meta
    pieces, eos = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.eos_token_id"]
    template = jinja2.Environment(keep_trailing_newline=True).from_string(meta["tokenizer.chat_template"])
    render = lambda said, answer: template.render(messages=said, eos_token=pieces[eos], add_generation_prompt=answer)

    documents = [d for d in chats.chats(SEED, HELD_OUT, 400, 0, frozenset()) if "turns" in d]
    long = (tokenize(llama, render(messages(d), False)) for d in documents)
    sequences = [tokens[:POSITIONS] for tokens in long if len(tokens) >= POSITIONS][:SEQUENCES]
    tokens = np.array(sequences, dtype="<u4")
    assert tokens.shape == (SEQUENCES, POSITIONS)
    np.save(OUT / "demo.tokens.npy", tokens)

    summary: dict = {"files": {}, "answers": []}
    n_vocab = len(pieces)
    for name, path in paths.items():
        exact = models[name].logits(tokens).reshape(-1, n_vocab)
        witness = Llama(path, POSITIONS)
        theirs = witness.logits(tokens).reshape(-1, n_vocab)
        witness.close()
        found = distance(exact, theirs)
        np.save(OUT / f"demo-{name}.kl.npy", found.kl.astype("<f4"))
        np.save(OUT / f"demo-{name}.top1.npy", theirs.argmax(axis=-1).astype("<u2"))
        kept = np.take_along_axis(exact, columns(n_vocab), axis=-1)
        np.save(OUT / f"demo-{name}.exact.npy", kept.astype("<f4"))
        summary["files"][name] = {
            "crc32": zlib.crc32(Path(path).read_bytes()),
            "llama_cpp": {"nmse": found.nmse, "mean_kl": float(found.kl.mean()), "top1_agreement": found.top1},
        }
        print(f"{name}: NMSE {found.nmse:.2e}, mean KL {found.kl.mean():.2e}, top-1 {found.top1:.4f}", flush=True)
    loss = distance(models["f16"].logits(tokens), models["q6_k"].logits(tokens))
    summary["q6_k_from_f16"] = {"mean_kl": float(loss.kl.mean()), "top1_agreement": loss.top1}

    # A few turns of a chat up to a question, and the answer.
    rng = Random(SEED)
    rng.shuffle(documents)
    for document in documents:
        said = messages(document, rng.randint(1, 3))[:-1]
        prompt = tokenize(llama, render(said, True))
        answer = greedy(models["q6_k"], prompt, eos) if len(prompt) < 120 else None
        if answer is None or greedy(models["f16"], prompt, eos) != answer:
            continue
        theirs = llama.sequence(np.array(prompt + answer))[len(prompt) - 1 : -1].argmax(-1)
        assert theirs.tolist() == answer, (said, answer, theirs)
        text = models["q6_k"].text(answer[:-1])
        summary["answers"].append({"messages": said, "prompt_ids": prompt, "ids": answer, "text": text})
        if len(summary["answers"]) == ANSWERS:
            break
    (OUT / "demo.json").write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    print(f"{len(summary['answers'])} answers")


if __name__ == "__main__":
    main()
