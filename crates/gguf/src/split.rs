//! Models split into several files named `NAME-00001-of-00003.gguf` and so on.
//!
//! Every part is a complete GGUF file with `split.no` (from 0) and `split.count`. The first part has the model's
//! metadata and `split.tensors.count`, the total number of tensors. Merging tools leave a count of 0 or 1.

use std::path::{Path, PathBuf};

use crate::error::{Error, SplitProblem, WrongType};
use crate::metadata::Metadata;
use crate::part::Loaded;

const NO: &str = "split.no";
const COUNT: &str = "split.count";
const TENSORS: &str = "split.tensors.count";

pub(crate) const KEYS: [&str; 3] = [NO, COUNT, TENSORS];

/// The end of the file name of part `number`, counted from 1.
fn suffix(number: u32, count: u32) -> String {
    format!("-{number:05}-of-{count:05}.gguf")
}

/// The number of files of a split model; `None` if it is not split.
fn count(loaded: &Loaded) -> Result<Option<u32>, Error> {
    let read = |metadata: &Metadata| match metadata.u32(COUNT)? {
        Some(count @ 2..=65535) => Ok(Some(count)),
        None | Some(0 | 1) => Ok(None),
        Some(count) => {
            let (key, found) = (COUNT.to_owned(), count.to_string());
            Err(WrongType { key, found, expected: "a number of files up to 65535" })
        }
    };
    read(&loaded.parsed.metadata).map_err(|error| loaded.wrong_type(error))
}

/// The part's number, counted from 1.
fn number(loaded: &Loaded) -> Result<u32, Error> {
    let no = loaded.parsed.metadata.u32(NO).map_err(|error| loaded.wrong_type(error))?;
    Ok(no.unwrap_or(0).saturating_add(1))
}

/// Refuses parts of split models, for data in memory.
pub(crate) fn refuse(loaded: &Loaded) -> Result<(), Error> {
    match count(loaded)? {
        None => Ok(()),
        Some(count) => Err(loaded.split_error(SplitProblem::InMemory { count })),
    }
}

/// Opens the other parts of the split model whose first part is `first`, opened from `path`; none if it is not split.
pub(crate) fn load_others(
    path: &Path,
    first: &Loaded,
    load: fn(&Path) -> Result<Loaded, Error>,
) -> Result<Vec<Loaded>, Error> {
    let Some(count) = count(first)? else { return Ok(Vec::new()) };
    let part = number(first)?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if part != 1 {
        let stem = name.strip_suffix(suffix(part, count).as_str()).unwrap_or("NAME");
        let first_name = format!("{stem}{}", suffix(1, count));
        return Err(first.split_error(SplitProblem::NotFirst { part, count, first: first_name }));
    }
    let Some(stem) = name.strip_suffix(suffix(1, count).as_str()) else {
        return Err(first.split_error(SplitProblem::Name { count, expected: suffix(1, count) }));
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
        return Err(first.split_error(SplitProblem::Missing { count, missing }));
    }
    let mut others = Vec::with_capacity(paths.len());
    for (path, number) in paths.iter().zip(2..) {
        others.push(checked(load(path)?, number, count)?);
    }
    let expected = first.parsed.metadata.u64(TENSORS).map_err(|error| first.wrong_type(error))?;
    let found = std::iter::once(first).chain(&others).map(|part| part.parsed.tensors.len() as u64).sum();
    match expected {
        Some(expected) if expected != found => {
            Err(first.split_error(SplitProblem::Tensors { found, expected }))
        }
        _ => Ok(others),
    }
}

/// Checks that `loaded` is part `expected` of `parts`.
fn checked(loaded: Loaded, expected: u32, parts: u32) -> Result<Loaded, Error> {
    let found = count(&loaded)?;
    if found != Some(parts) {
        let found = found.unwrap_or(1);
        return Err(loaded.split_error(SplitProblem::Count { found, expected: parts }));
    }
    let found = number(&loaded)?;
    if found != expected {
        return Err(loaded.split_error(SplitProblem::Number { found, expected }));
    }
    Ok(loaded)
}
