//! Chat templates.

use gguf::Metadata;
use indexmap::{IndexMap, IndexSet};
use serde::Deserialize;
use serde_json::Value;

use super::folder::Folder;
use crate::error::{Error, invalid};

const CONFIG: &str = "tokenizer_config.json";
const DEFAULT: &str = "default";

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Named {
    #[serde(default)]
    name: String,
    template: Option<String>,
}

impl Named {
    fn new(name: &str, template: String) -> Named {
        Named { name: name.to_owned(), template: Some(template) }
    }
}

/// The templates of a folder; `stated` is that of the tokenizer's configuration, which precedes those in files.
pub(super) fn read(folder: &Folder, stated: Option<&Value>) -> Result<Vec<Named>, Error> {
    if let Some(stated) = stated {
        return parse(folder, CONFIG, stated);
    }
    if let Some(template) = folder.text("chat_template.jinja")? {
        let mut templates = vec![Named::new(DEFAULT, template)];
        templates.extend(additional(folder)?);
        return Ok(templates);
    }
    const JSON: &str = "chat_template.json";
    match folder.json::<IndexMap<String, Value>>(JSON)? {
        Some(file) => parse(folder, JSON, file.get("chat_template").unwrap_or(&Value::Null)),
        None => Ok(Vec::new()),
    }
}

fn parse(folder: &Folder, name: &str, value: &Value) -> Result<Vec<Named>, Error> {
    match value {
        Value::String(template) => Ok(vec![Named::new(DEFAULT, template.clone())]),
        Value::Array(_) => Vec::deserialize(value).map_err(|error| {
            let expected = "objects with `name` and `template`";
            invalid(&folder.path(name), "`chat_template`", error, expected)
        }),
        Value::Null => Ok(Vec::new()),
        other => {
            let path = folder.path(name);
            tracing::warn!("{}: `chat_template` is {other:.20}, not a text; it is ignored", path.display());
            Ok(Vec::new())
        }
    }
}

/// The files of the folder `additional_chat_templates`, in alphabetical order.
fn additional(folder: &Folder) -> Result<Vec<Named>, Error> {
    const FOLDER: &str = "additional_chat_templates";
    let Ok(files) = std::fs::read_dir(folder.path(FOLDER)) else { return Ok(Vec::new()) };
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> = names.filter(|name| name.ends_with(".jinja")).collect();
    names.sort();
    let mut templates = Vec::new();
    for name in names {
        if let Some(template) = folder.text(&format!("{FOLDER}/{name}"))? {
            templates.push(Named::new(name.trim_end_matches(".jinja"), template));
        }
    }
    Ok(templates)
}

pub(super) fn write(templates: Vec<Named>, metadata: &mut Metadata) {
    let (mut names, mut default) = (IndexSet::new(), None);
    for Named { name, template } in templates {
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let Some(template) = template.filter(|_| !name.is_empty()) else { continue };
        if name == DEFAULT {
            default = Some(template);
        } else {
            metadata.insert(format!("tokenizer.chat_template.{name}"), template);
            names.insert(name);
        }
    }
    if !names.is_empty() {
        metadata.insert("tokenizer.chat_templates", Vec::from_iter(names));
    }
    if let Some(template) = default {
        metadata.insert("tokenizer.chat_template", template);
    }
}
