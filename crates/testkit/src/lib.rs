//! GGUF files made for tests.
