//! The `rustorch` program.

fn main() {}
