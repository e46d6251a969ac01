//! The commands about models as files: `pull`, `list`, `show`, `rm` and `where`.

pub(crate) mod list;
pub(crate) mod pull;
pub(crate) mod rm;
pub(crate) mod show;
pub(crate) mod where_is;

use std::path::Path;

use hub::Settings;

use super::held::Held;
use super::name::{HubName, Name};
use super::{addresses, in_folder, ollama, short, stores, unknown};

/// What a name stands for, without the network.
enum Target {
    /// On the hub, possibly here, too.
    Hub(HubName),
    Address(String),
    /// Of another program or a folder.
    Held(Held),
    File(std::path::PathBuf),
}

impl Target {
    fn of(typed: &Path, settings: &Settings) -> anyhow::Result<Target> {
        Ok(match Name::of(typed)? {
            Name::File(path) => match typed.to_str().filter(|_| !path.exists()).and_then(ollama::find) {
                Some(held) => Target::Held(held),
                None => Target::File(path),
            },
            Name::Hub(name) => Target::Hub(name),
            Name::Address(address) => Target::Address(address),
            Name::Short(name) => {
                if let Some(path) = in_folder(&name) {
                    return Ok(Target::File(path));
                }
                match (short::find(&name), ollama::find(&name)) {
                    (Some(target), None) => Target::Hub(target),
                    (Some(target), Some(_)) if stores::of_hub(settings, &target)?.is_some() => {
                        Target::Hub(target)
                    }
                    (_, Some(held)) => Target::Held(held),
                    (None, None) => return Err(unknown(&name)),
                }
            }
        })
    }
}

/// Whether what is here must do, because there is no network or it fails.
fn is_unreachable(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(|error: &hub::Error| {
        error.is_of_network() || matches!(error, hub::Error::Offline { .. })
    })
}

/// The model of an address, if it is here.
fn of_address(address: &str) -> anyhow::Result<Option<Held>> {
    addresses::find(address)?;
    Ok(addresses::all().into_iter().find(|held| held.name == address))
}
