//! Models in ollama's store, read in place: a manifest per model names the blobs with its parts.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::held::{Held, Origin};

/// The registry of names without a host.
const REGISTRY: &str = "registry.ollama.ai";

/// Names in the registry without a user.
const LIBRARY: &str = "library";

const MODEL: &str = "application/vnd.ollama.image.model";
const ADAPTER: &str = "application/vnd.ollama.image.adapter";

#[derive(Deserialize)]
struct Manifest {
    config: Option<Layer>,
    #[serde(default)]
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layer {
    media_type: String,
    digest: String,
}

/// The blob `config`.
#[derive(Deserialize)]
struct Config {
    /// Such as `Q4_K_M`.
    file_type: Option<String>,
}

/// The models in all stores, by name.
pub(super) fn all() -> Vec<Held> {
    let mut held: Vec<Held> = stores().iter().flat_map(|store| store_models(store)).collect();
    held.sort_by(|a, b| a.name.cmp(&b.name));
    held.dedup_by(|a, b| a.name == b.name);
    held
}

/// The model `name`, with or without a tag.
pub(super) fn find(name: &str) -> Option<Held> {
    let tagged = if name.contains(':') { name.to_owned() } else { format!("{name}:latest") };
    all().into_iter().find(|held| held.name.eq_ignore_ascii_case(&tagged))
}

/// `OLLAMA_MODELS`, or the folders of a user and of the service.
fn stores() -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os("OLLAMA_MODELS").filter(|named| !named.is_empty()) {
        return vec![named.into()];
    }
    let home = std::env::home_dir().map(|home| home.join(".ollama").join("models"));
    home.into_iter().chain([PathBuf::from("/usr/share/ollama/.ollama/models")]).collect()
}

fn store_models(store: &Path) -> Vec<Held> {
    let manifests = store.join("manifests");
    let mut found = Vec::new();
    // HOST/USER/MODEL/TAG
    for host in entries(&manifests) {
        for user in entries(&manifests.join(&host)) {
            for model in entries(&manifests.join(&host).join(&user)) {
                let folder = manifests.join(&host).join(&user).join(&model);
                for tag in entries(&folder) {
                    let name = match (&*host, &*user) {
                        (REGISTRY, LIBRARY) => format!("{model}:{tag}"),
                        (REGISTRY, user) => format!("{user}/{model}:{tag}"),
                        (host, user) => format!("{host}/{user}/{model}:{tag}"),
                    };
                    found.extend(read(store, &folder.join(tag), name));
                }
            }
        }
    }
    found
}

/// `None` for a manifest of something else, such as a model that is not on this machine, or one with an adapter.
fn read(store: &Path, manifest: &Path, name: String) -> Option<Held> {
    let manifest: Manifest = serde_json::from_slice(&fs::read(manifest).ok()?).ok()?;
    let has = |kind: &str| manifest.layers.iter().find(|layer| layer.media_type == kind);
    if has(ADAPTER).is_some() {
        return None;
    }
    let path = blob(store, &has(MODEL)?.digest)?;
    let bytes = fs::metadata(&path).ok()?.len();
    let config = manifest.config.and_then(|layer| fs::read(blob(store, &layer.digest)?).ok());
    let config: Option<Config> = config.and_then(|text| serde_json::from_slice(&text).ok());
    let quant = config.and_then(|config| config.file_type);
    Some(Held { name, quant, files: vec![path], bytes, origin: Origin::Ollama })
}

/// The path of `sha256:DIGEST`.
fn blob(store: &Path, digest: &str) -> Option<PathBuf> {
    let hex = digest.strip_prefix("sha256:")?;
    let is_hash = hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| store.join("blobs").join(format!("sha256-{hex}")))
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
