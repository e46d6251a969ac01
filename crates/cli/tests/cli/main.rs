//! The program as its users run it.

mod bench;
mod chat;
mod common;
mod compare;
#[cfg(unix)]
mod completions;
mod convert;
mod embed;
mod embedded;
mod fuzzed;
mod gpu;
mod grammar;
mod help;
mod hub;
mod hub_missing;
mod imatrix;
mod imatrix_sums;
mod inspect;
mod known;
mod limits;
mod man;
mod mistakes;
mod outputs;
mod perplexity;
mod quantize;
mod run;
#[cfg(unix)]
mod serve;
mod settings;
#[cfg(unix)]
mod signals;
mod synth;
#[cfg(unix)]
mod template;
mod terminal;
mod tokens;
mod trace;
mod verify;
mod version;
