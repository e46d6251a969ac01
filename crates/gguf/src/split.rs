//! Models split into several files named `NAME-00001-of-00003.gguf` and so on.
//!
//! Every part is a complete GGUF file with `split.no` (from 0) and `split.count`. The first part has the model's
//! metadata and `split.tensors.count`, the total number of tensors. Merging tools leave a count of 0 or 1.

use std::path::{Path, PathBuf};

use crate::error::{Error, WrongType};
use crate::part::{MappedFile, Part};

const NO: &str = "split.no";
const COUNT: &str = "split.count";
const TENSORS: &str = "split.tensors.count";

pub(crate) const KEYS: [&str; 3] = [NO, COUNT, TENSORS];

fn suffix(number: u32, count: u32) -> String {
    format!("-{number:05}-of-{count:05}.gguf")
}

/// The number of files of a split model; `None` if it is not split.
pub(crate) fn count(part: &Part) -> Result<Option<u32>, Error> {
    match part.parsed.metadata.u32(COUNT).map_err(|error| part.wrong_type(error))? {
        Some(count @ 2..=65535) => Ok(Some(count)),
        None | Some(0 | 1) => Ok(None),
        Some(count) => {
            let (key, found) = (COUNT.to_owned(), count.to_string());
            Err(part.wrong_type(WrongType { key, found, expected: "a number of files up to 65535" }))
        }
    }
}

fn number(part: &Part) -> Result<u32, Error> {
    let no = part.parsed.metadata.u32(NO).map_err(|error| part.wrong_type(error))?;
    Ok(no.unwrap_or(0).saturating_add(1))
}

/// Opens the file at `path` and, if it is the first part of a split model, the others.
pub(crate) fn load(path: &Path, open: fn(&Path) -> Result<MappedFile, Error>) -> Result<Vec<Part>, Error> {
    let first = Part::parse(open(path)?)?;
    let Some(count) = count(&first)? else { return Ok(vec![first]) };
    let number = number(&first)?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let expected = suffix(1, count);
    if number != 1 {
        let stem = name.strip_suffix(suffix(number, count).as_str()).unwrap_or("NAME");
        return Err(first.split_error(format!(
            "this is part {number} of a model split into {count} files; open the first part, {stem}{expected}"
        )));
    }
    let Some(stem) = name.strip_suffix(expected.as_str()) else {
        return Err(first.split_error(format!(
            "this is the first of {count} parts, which are found by name; rename it back to its original name, which \
             ended with {expected}"
        )));
    };
    let paths: Vec<PathBuf> =
        (2..=count).map(|number| path.with_file_name(format!("{stem}{}", suffix(number, count)))).collect();
    let missing: Vec<String> =
        paths.iter().filter(|path| !path.exists()).map(|path| path.display().to_string()).collect();
    if !missing.is_empty() {
        const NAMED: usize = 8;
        let named = missing.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        let missing = match missing.len() {
            1 => format!("{named} is missing"),
            2..=NAMED => format!("{named} are missing"),
            others => format!("{named} and {} more are missing", others - NAMED),
        };
        return Err(first.split_error(format!(
            "the model is split into {count} files and {missing}; download them into the same folder"
        )));
    }
    let mut parts = vec![first];
    for (path, number) in paths.iter().zip(2..) {
        let part = Part::parse(open(path)?)?;
        let (its_count, its_number) = (self::count(&part)?.unwrap_or(1), self::number(&part)?);
        if its_count != count {
            return Err(part.split_error(format!(
                "belongs to a model of {its_count} files, the first part to one of {count}; parts of different models are mixed"
            )));
        }
        if its_number != number {
            return Err(part.split_error(format!(
                "contains part {its_number}, but its name says {number}; the file was renamed or belongs to another model"
            )));
        }
        parts.push(part);
    }
    let found = parts.iter().map(|part| part.parsed.tensors.len() as u64).sum();
    let first = &parts[0];
    match first.parsed.metadata.u64(TENSORS).map_err(|error| first.wrong_type(error))? {
        Some(expected) if expected != found => Err(first.split_error(format!(
            "the parts contain {found} tensors, but {TENSORS} is {expected}; parts of different models are mixed"
        ))),
        _ => Ok(parts),
    }
}
