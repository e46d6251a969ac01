//! The weights of a file in other formats, without their values: enough for a dry run.

use std::collections::HashMap;
use std::fs::File;

use anyhow::Context;
use backend::{Weight, Weights};
use bytes::Bytes;
use gguf::output::temporary_folder;
use gguf::{Gguf, Layout, Metadata};
use quant::{Format, Mix};
use tempfile::TempDir;

/// Zeros for weights of any size: a hole in a file, which takes no memory.
pub(crate) struct Zeros {
    zeros: Bytes,
    _file: Gguf,
    _folder: TempDir,
}

impl Zeros {
    /// Enough for every tensor of `file` in any format.
    pub(crate) fn for_tensors_of(file: &Gguf) -> anyhow::Result<Zeros> {
        let values = file.tensors().map(|tensor| tensor.row_len() * tensor.rows()).max().unwrap_or(1);
        let folder = temporary_folder().context("cannot create a temporary folder")?;
        let path = folder.path().join("zeros.gguf");
        let mut layout = Layout::new(&Metadata::default())?;
        // No format has more than the four bytes of F32 for a value.
        layout.tensor("zeros", &[values], Format::F32)?;
        let bytes = layout.file_len();
        let file = File::create(&path)?;
        layout.begin(&file)?;
        file.set_len(bytes)?;
        let file = Gguf::open(&path)?;
        let zeros = file.tensor("zeros").context("the file has its tensor")?.data.clone();
        Ok(Zeros { zeros, _file: file, _folder: folder })
    }
}

/// The tensors of a file as they are in another quantisation.
pub(crate) struct OtherFormats<'a> {
    file: &'a Gguf,
    formats: HashMap<&'a str, Format>,
    zeros: &'a Zeros,
}

impl<'a> OtherFormats<'a> {
    /// Those of a quantisation by its name; `None` if its formats are not known.
    pub(crate) fn of(file: &'a Gguf, quant: &str, zeros: &'a Zeros) -> Option<OtherFormats<'a>> {
        let formats = convert::quantize::formats(file, mix(quant)?).ok()?;
        let formats = file.tensors().map(|tensor| tensor.name.as_str()).zip(formats).collect();
        Some(OtherFormats { file, formats, zeros })
    }

    /// Bytes of all tensors.
    pub(crate) fn bytes(&self) -> u64 {
        let values =
            |name: &str| self.file.tensor(name).map(|tensor| tensor.row_len() as u64 * tensor.rows() as u64);
        let bytes = |(name, format): (&&str, &Format)| format.bytes_for(values(name)?);
        self.formats.iter().filter_map(bytes).sum()
    }
}

/// The mix of a quantisation: `UD-Q4_K_XL` has about the formats of Q4_K_M.
fn mix(quant: &str) -> Option<Mix> {
    let plain = ["UD-", "i1-", "SOTA-"].iter().find_map(|prefix| {
        let (head, rest) = quant.split_at_checked(prefix.len())?;
        head.eq_ignore_ascii_case(prefix).then_some(rest)
    });
    let plain = plain.unwrap_or(quant);
    let stem = plain.rsplit_once('_').map_or(plain, |(stem, _)| stem);
    [plain, &format!("{stem}_M"), stem].iter().find_map(|name| name.parse().ok())
}

impl Weights for OtherFormats<'_> {
    fn weight(&self, weight: &graph::Weight) -> Option<Weight> {
        let tensor = self.file.tensor(&weight.tensor)?;
        let format = *self.formats.get(tensor.name.as_str())?;
        let (cols, count) = (tensor.row_len(), weight.count.max(1));
        let is_whole = weight.range.len() == weight.tensor_rows;
        let (all_rows, rows) = if is_whole {
            (tensor.rows(), tensor.rows() / count)
        } else {
            (weight.range.len(), weight.range.len())
        };
        let len = usize::try_from(format.bytes_for(all_rows as u64 * cols as u64)?).ok()?;
        let zeros = &self.zeros.zeros;
        (len <= zeros.len()).then(|| Weight { format, count, rows, cols, bytes: zeros.slice(..len) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_on_the_hub_are_mixes() {
        for (quant, expected) in [
            ("Q4_K_M", Some(Mix::Q4_K_M)),
            ("UD-Q4_K_XL", Some(Mix::Q4_K_M)),
            ("Q2_K_L", Some(Mix::Q2_K)),
            ("Q6_K_L", Some(Mix::Q6_K)),
            ("I1-IQ2_XXS", Some(Mix::IQ2_XXS)),
            ("BF16", Some(Mix::BF16)),
            ("MXFP4", Some(Mix::MXFP4_MOE)),
            ("NVFP4", None),
            ("", None),
        ] {
            assert_eq!(mix(quant), expected, "{quant}");
        }
    }
}
