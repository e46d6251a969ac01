//! What `--version` prints; `-V` prints the number alone.

use crate::output;

pub(crate) const NUMBER: &str = env!("CARGO_PKG_VERSION");

/// The number, then the commit if it is known, Cargo features and the target.
pub(crate) fn long() -> String {
    let commit = Some(env!("BUILD_COMMIT")).filter(|commit| !commit.is_empty());
    let features = if cfg!(feature = "gpu") { "gpu" } else { "none" };
    let profile = if cfg!(debug_assertions) { ", a development build" } else { "" };
    let rows = [
        commit.map(|commit| ("commit", commit.to_owned())),
        Some(("features", features.to_owned())),
        Some(("target", env!("BUILD_TARGET").to_owned() + profile)),
    ];
    format!("{NUMBER}\n{}", output::pairs(rows.into_iter().flatten()).trim_end())
}
