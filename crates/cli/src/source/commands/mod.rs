//! The commands about models as files: `pull`, `list`, `show`, `rm` and `where`.

pub(crate) mod list;
pub(crate) mod pull;
pub(crate) mod rm;
pub(crate) mod show;
pub(crate) mod where_is;

use super::held::Held;
use super::{Target, addresses};

/// Whether what is here must do, because there is no network or it fails.
fn is_unreachable(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(|error: &hub::Error| {
        error.is_network_error() || matches!(error, hub::Error::Offline { .. })
    })
}

/// The model of an address, if it is here.
fn downloaded(address: &str) -> anyhow::Result<Option<Held>> {
    addresses::find(address)?;
    Ok(addresses::all().into_iter().find(|held| held.name == address))
}
