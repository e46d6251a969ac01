//! The tokenizer of a checkpoint, as metadata of a GGUF file.
