//! The names that can be given without a path, for completion in shells.

use hub::Settings;

use super::{short, stores};
use crate::output::size;

/// A model's name.
pub(crate) struct Known {
    pub(crate) name: String,
    /// What it is, in a few words.
    pub(crate) about: String,
    pub(crate) is_here: bool,
    pub(crate) is_short: bool,
}

/// Models on this machine, then short names. What cannot be read is left out.
pub(crate) fn models() -> Vec<Known> {
    let held = Settings::from_env().map_err(Into::into).and_then(|settings| stores::all(&settings));
    let held = held.unwrap_or_default();
    let short = short::all().map(|(name, target)| {
        let target = target.to_string();
        let is_here = held.iter().any(|held| held.name == target);
        Known { name: name.to_owned(), about: target, is_here, is_short: true }
    });
    let all = held.iter().map(|held| Known {
        name: held.name.clone(),
        about: format!("{}, {}", size(held.bytes), held.origin.label()),
        is_here: true,
        is_short: false,
    });
    all.chain(short).collect()
}
