//! How the tokens of a text become one vector or scores: keys of encoders and of embedding models.

use crate::Error;
use crate::config::Config;
use crate::keys::Keys;

/// llama.cpp's numbers.
const MEAN: u32 = 1;
const FIRST: u32 = 2;
const LAST: u32 = 3;
pub(crate) const RANK: u32 = 4;

/// Writes what `modules.json` of sentence-transformers and a classifier's configuration say.
pub(crate) fn pooling(config: &Config, keys: &mut Keys<'_>) -> Result<(), Error> {
    keys.optional("pooling_type", module_pooling(config)?);
    let pooled = config.str(&["classifier_pooling"])?.map(|name| match name {
        "cls" => Ok(FIRST),
        "mean" => Ok(MEAN),
        _ => Err(config.error(format!("\"classifier_pooling\" is {name:?}, expected \"cls\" or \"mean\""))),
    });
    keys.optional("classifier.pooling_type", pooled.transpose()?);
    Ok(())
}

fn module_pooling(config: &Config) -> Result<Option<u32>, Error> {
    let Some(modules) = config.beside("modules.json")? else { return Ok(None) };
    let mut modules = modules.as_array().into_iter().flatten();
    let is_pooling = |module: &&serde_json::Value| {
        module.get("type").and_then(|kind| kind.as_str()).is_some_and(|kind| kind.ends_with("Pooling"))
    };
    let Some(module) = modules.find(is_pooling) else { return Ok(None) };
    let folder = module.get("path").and_then(|path| path.as_str()).unwrap_or_default();
    // It is a folder of this one, whatever the list says.
    let is_name =
        !folder.is_empty() && folder.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let file = format!("{folder}/config.json");
    let found = if is_name { config.beside(&file)? } else { None };
    let found = found.ok_or_else(|| {
        config.error(format!(
            "modules.json names the module {folder:?}, but {file} is missing; download it, too"
        ))
    })?;
    let is = |flag: &str, name: &str| {
        found.get(flag).and_then(|flag| flag.as_bool()) == Some(true)
            || found.get("pooling_mode").and_then(|mode| mode.as_str()) == Some(name)
    };
    let kinds = [
        ("pooling_mode_mean_tokens", "mean", MEAN),
        ("pooling_mode_cls_token", "cls", FIRST),
        ("pooling_mode_lasttoken", "lasttoken", LAST),
    ];
    match kinds.into_iter().find(|(flag, name, _)| is(flag, name)) {
        Some((_, _, kind)) => Ok(Some(kind)),
        None => Err(config.error(format!(
            "{file} asks for a pooling that files cannot name; the mean, the first and the last token are known"
        ))),
    }
}

/// The names of a classifier's scores; those that transformers makes up, only if the class is a classifier.
pub(crate) fn labels(config: &Config) -> Option<Vec<String>> {
    let is_classifier = config.class().is_ok_and(|class| class.ends_with("ForSequenceClassification"));
    let made_up = || is_classifier.then(|| vec!["LABEL_0".to_owned(), "LABEL_1".to_owned()]);
    let Some(labels) = config.value("id2label").and_then(|labels| labels.as_object()) else {
        return made_up();
    };
    let labels = labels.iter().map(|(id, label)| Some((id.parse().ok()?, label.as_str()?.to_owned())));
    let mut labels = labels.collect::<Option<Vec<(u32, String)>>>()?;
    labels.sort();
    let labels: Vec<String> = labels.into_iter().map(|(_, label)| label).collect();
    let is_made_up = labels.len() == 2 && labels[0] == "LABEL_0";
    (!labels.is_empty() && (is_classifier || !is_made_up)).then_some(labels)
}
