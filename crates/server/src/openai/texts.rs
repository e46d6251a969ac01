//! Texts of a call: one or several, as text or as token ids.

use serde::Deserialize;

use crate::error::ApiError;

/// One text or several, as text or as token ids.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string, token ids, or an array of one of them")]
pub(super) enum Texts {
    Text(String),
    Ids(Vec<u32>),
    Many(Vec<String>),
    ManyIds(Vec<Vec<u32>>),
}

impl Texts {
    /// The ids of each text of the field `param`; there are at most `most`. `encode` gets a text and its field. Takes a while: not for the threads of the
    /// runtime.
    pub(super) fn encode(
        self,
        param: &str,
        most: usize,
        encode: impl Fn(&str, &str) -> Result<Vec<u32>, ApiError>,
    ) -> Result<Vec<Vec<u32>>, ApiError> {
        let found = match &self {
            Texts::Text(_) | Texts::Ids(_) => 1,
            Texts::Many(texts) => texts.len(),
            Texts::ManyIds(texts) => texts.len(),
        };
        if found > most {
            let message = format!("`{param}` has {found} texts, expected at most {most}");
            return Err(ApiError::invalid(param, message));
        }
        match self {
            Texts::Text(text) => Ok(vec![encode(&text, param)?]),
            Texts::Ids(ids) => Ok(vec![ids]),
            Texts::Many(texts) => {
                let one = |(n, text): (usize, &String)| encode(text, &format!("{param}[{n}]"));
                texts.iter().enumerate().map(one).collect()
            }
            Texts::ManyIds(texts) => Ok(texts),
        }
    }
}
