//! The format that the matrices of a file get.

use std::str::FromStr;

use quant::Format;

use crate::checkpoint::{Checkpoint, Elements};

/// The format of the matrices; vectors stay in F32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the formats are ggml's")]
pub enum FileType {
    F32,
    F16,
    Bf16,
    Q8_0,
    Tq1_0,
    Tq2_0,
}

impl FileType {
    /// All, with the names that llama.cpp's converter has for them.
    pub const ALL: [(FileType, &'static str); 6] = [
        (FileType::F32, "f32"),
        (FileType::F16, "f16"),
        (FileType::Bf16, "bf16"),
        (FileType::Q8_0, "q8_0"),
        (FileType::Tq1_0, "tq1_0"),
        (FileType::Tq2_0, "tq2_0"),
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        FileType::ALL.iter().find(|(file_type, _)| *file_type == self).map_or("", |(_, name)| name)
    }

    /// That of the first matrix: BF16 and F16 stay, others become F16, as with llama.cpp's `auto`.
    pub(crate) fn of(checkpoint: &Checkpoint) -> FileType {
        let matrices = checkpoint.tensors.values().filter(|view| view.shape().len() > 1);
        let known = matrices.map(|view| match view.elements() {
            Elements::Bf16 => Some(FileType::Bf16),
            Elements::F16 => Some(FileType::F16),
            _ => None,
        });
        known.flatten().next().unwrap_or(FileType::F16)
    }

    pub(crate) fn format(self) -> Format {
        match self {
            FileType::F32 => Format::F32,
            FileType::F16 => Format::F16,
            FileType::Bf16 => Format::BF16,
            FileType::Q8_0 => Format::Q8_0,
            FileType::Tq1_0 => Format::TQ1_0,
            FileType::Tq2_0 => Format::TQ2_0,
        }
    }

    /// `general.file_type`; files with experts in MXFP4 have a number of their own.
    pub(crate) fn id(self, has_mxfp4: bool) -> u32 {
        match self {
            FileType::F32 | FileType::F16 | FileType::Bf16 if has_mxfp4 => 38,
            FileType::F32 => 0,
            FileType::F16 => 1,
            FileType::Bf16 => 32,
            FileType::Q8_0 => 7,
            FileType::Tq1_0 => 36,
            FileType::Tq2_0 => 37,
        }
    }
}

impl FromStr for FileType {
    type Err = ();

    fn from_str(name: &str) -> Result<FileType, ()> {
        let found = FileType::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(name));
        found.map(|(file_type, _)| *file_type).ok_or(())
    }
}
