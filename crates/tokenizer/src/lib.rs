//! Tokenizers of GGUF files: SentencePiece and byte-level BPE.
