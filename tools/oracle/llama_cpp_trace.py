"""llama.cpp's values of a run, as `rustorch trace` records them.

    python llama_cpp_trace.py MODEL.gguf --tokens 1,15043 -o TRACE.safetensors

llama.cpp calls back after each tensor it computes. One sequence from position 0 on is one batch with
logits for all rows; flash attention is off, K and V are in F16 unless --kv says f32, and nothing is
on a GPU. Kept are the named tensors with a row for each position, under llama.cpp's names:

- A name that occurs again (product, reshape, rotation) keeps its last tensor. What a rotation
  `Qcur-0` replaces is `Qcur_pre-0`; what a bias is added to is `Qcur_mm-0`.
- Views of several dimensions, heads for example, become rows of all their columns; F16 becomes F32.
- Left out: intermediate values of attention and of norms (`kq`, `kq_soft_max`, `kqv`, `norm`), which
  have no row for each position or no name of their own, the cache, views with derived names and
  tensors without a name (`node_101`).

`l_inp_outputs` and `kqv_out_outputs` exist in RusTorch only: llama.cpp gathers output rows after the `attn_out` matmul,
not before. If all rows are output rows, they equal `l_out` of the previous layer and `kqv_out`.
"""

import argparse
import ctypes
import re
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import llama_cpp as lib
import numpy as np
from gguf import GGUFReader

import trace_file

NAMED = re.compile(r"(?!node_|leaf_|cache_)([A-Za-z_]+)(-\d+)?")
INNER = {"kq", "kq_soft_max", "kqv", "norm"}
DTYPES = {lib.GGML_TYPE_F32: np.dtype("<f4"), lib.GGML_TYPE_F16: np.dtype("<f2")}


class Tensor(ctypes.Structure):
    """`struct ggml_tensor` of ggml.h: ne counts elements, nb are strides in bytes, fastest first."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("buffer", ctypes.c_void_p),
        ("ne", ctypes.c_int64 * 4),
        ("nb", ctypes.c_size_t * 4),
        ("op", ctypes.c_int),
        ("op_params", ctypes.c_int32 * 16),
        ("flags", ctypes.c_int32),
        ("src", ctypes.c_void_p * 10),
        ("view_src", ctypes.c_void_p),
        ("view_offs", ctypes.c_size_t),
        ("data", ctypes.c_void_p),
        ("name", ctypes.c_char * 64),
    ]


def ggml() -> ctypes.CDLL:
    """The library with ggml's functions on tensors, which llama.cpp has loaded."""
    folder = Path(lib.__file__).parent / "lib"
    path = next(path for pattern in ("*ggml-base.so", "*ggml-base.dylib", "*ggml-base.dll")
                for path in folder.glob(pattern))  # fmt: skip
    found = ctypes.CDLL(str(path))
    for name, result in [("ggml_get_name", ctypes.c_char_p), ("ggml_op_desc", ctypes.c_char_p),
                         ("ggml_nbytes", ctypes.c_size_t)]:  # fmt: skip
        function = getattr(found, name)
        function.restype, function.argtypes = result, [ctypes.c_void_p]
    return found


class Tap:
    """Gives `writer` the tensors of a run of `positions` positions."""

    def __init__(self, writer: trace_file.Writer, positions: int):
        self.writer, self.positions, self.ggml = writer, positions, ggml()
        self.error: BaseException | None = None

    def __call__(self, address: int, ask: bool, _: object) -> bool:
        """Called before a tensor is computed: whether to record it. After: whether to continue."""
        try:
            tensor = Tensor.from_address(address)
            wanted = self.shape(tensor) is not None
            if not ask and wanted:
                self.take(address, tensor)
            return wanted if ask else True
        except BaseException as error:  # it cannot pass through llama.cpp
            self.error = error
            return False

    def shape(self, tensor: Tensor) -> tuple[int, int, int] | None:
        """Positions, heads and columns per head, if the tensor is to be recorded."""
        match = NAMED.fullmatch(tensor.name.decode())
        if not match or match[1] in INNER or tensor.type not in DTYPES or tensor.ne[3] != 1:
            return None
        columns, second, third, _ = tensor.ne
        if third == 1 and second == self.positions:
            return second, 1, columns
        return (third, second, columns) if third == self.positions else None

    def take(self, address: int, tensor: Tensor) -> None:
        name = tensor.name.decode()
        if self.ggml.ggml_get_name(address) != tensor.name:
            raise SystemExit("this version of ggml lays its tensors out in another way")
        positions, heads, columns = self.shape(tensor)
        third, second, first = tensor.nb[2], tensor.nb[1], tensor.nb[0]
        strides = (third, second, first) if tensor.ne[2] == positions else (second, 0, first)
        data = (ctypes.c_uint8 * self.ggml.ggml_nbytes(address)).from_address(tensor.data)
        value = np.ndarray((positions, heads, columns), DTYPES[tensor.type], data, 0, strides)
        replaced = {b"ROPE": "_pre", b"ADD": "_mm"}.get(self.ggml.ggml_op_desc(address))
        if replaced and name in self.writer.places:
            base, layer = re.fullmatch(r"(.*?)(-\d+)?", name).groups(default="")
            self.writer.rename(name, f"{base}{replaced}{layer}")
        self.writer.add(name, value.reshape(positions, -1))


def run(path: str, tokens: list[int], kv: str, threads: int, out: str) -> None:
    log = lib.llama_log_callback(lambda level, text, data: None)
    lib.llama_log_set(log, ctypes.c_void_p(0))
    model_params = lib.llama_model_default_params()
    model_params.n_gpu_layers = 0
    model = lib.llama_model_load_from_file(path.encode(), model_params)
    if not model:
        raise SystemExit(f"llama.cpp refuses {path}")
    vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
    if bad := [token for token in tokens if not 0 <= token < vocab]:
        raise SystemExit(f"token {bad[0]} is outside the vocabulary of {vocab}")

    n = len(tokens)
    writer = trace_file.Writer(out)
    tap = Tap(writer, n)
    callback = lib.ggml_backend_sched_eval_callback(tap)
    params = lib.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = n
    params.n_threads = params.n_threads_batch = threads
    params.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.type_k = params.type_v = lib.GGML_TYPE_F16 if kv == "f16" else lib.GGML_TYPE_F32
    params.cb_eval = callback
    context = lib.llama_init_from_model(model, params)
    if not context:
        raise SystemExit(f"llama.cpp makes no context for {path}")
    batch = lib.llama_batch_init(n, 0, 1)
    batch.n_tokens = n
    for i, token in enumerate(tokens):
        batch.token[i], batch.pos[i], batch.logits[i] = token, i, 1
        batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
    status = lib.llama_decode(context, batch)
    if tap.error:
        raise tap.error
    if status != 0:
        raise SystemExit(f"llama_decode returned {status}")

    types = Counter(t.tensor_type.name for part in trace_file.files(path) for t in GGUFReader(part).tensors)
    writer.finish({
        "producer": f"llama.cpp via llama-cpp-python {version('llama-cpp-python')}",
        "backend": "llama.cpp",
        "facts": lib.llama_print_system_info().decode().strip(),
        "model": path,
        "model_digest": trace_file.digest(path),
        "n_layer": str(lib.llama_model_n_layer(model)),
        "types": ", ".join(f"{name} {count}" for name, count in sorted(types.items())),
        "kv": kv,
        "tokens": ",".join(map(str, tokens)),
    })  # fmt: skip
    lib.llama_batch_free(batch)
    lib.llama_free(context)
    lib.llama_model_free(model)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL.gguf")
    parser.add_argument("--tokens", type=trace_file.ids, required=True, metavar="IDS")
    parser.add_argument("--kv", choices=["f16", "f32"], default="f16")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("-o", "--output", required=True, metavar="TRACE.safetensors")
    args = parser.parse_args()
    if not args.tokens:
        parser.error("--tokens names no token")
    run(args.model, args.tokens, args.kv, args.threads, args.output)


if __name__ == "__main__":
    main()
