"""Files with a vocabulary only."""

from pathlib import Path

import gguf


def with_pre(source: Path, out: Path, pre: str) -> None:
    """The vocabulary `source` with another pre-tokenizer."""
    reader = gguf.GGUFReader(str(source))
    writer = gguf.GGUFWriter(str(out), "llama")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "tokenizer.ggml.pre"):
            continue
        kind = field.types[0]
        sub_type = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=sub_type)
    writer.add_tokenizer_pre(pre)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
