//! Which files of a repository are a model, and which of its quantisations to use.

use std::sync::LazyLock;

use regex::Regex;

use crate::FileName;

/// Quantisations in the order in which they are taken if none is named: the usual one, those of about the same size, then the
/// smallest loss.
const PREFERRED: &str = "Q4_K_M Q4_K_XL Q4_K_L Q4_K_S Q4_K IQ4_NL IQ4_XS Q4_0 Q4_1 MXFP4 MXFP4_MOE Q5_K_M Q5_K_S Q5_0 Q6_K Q8_0 \
    Q3_K_M BF16 F16 F32";

/// Words in the names of GGUF files that are no models by themselves.
const NO_MODELS: [&str; 6] = ["mmproj", "imatrix", "mtp-", "eagle3-", "dflash-", "vocab"];

/// One quantisation of a model: a file, or all files of a split one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Model {
    /// Such as `Q4_K_M` or `UD-Q4_K_XL`, in upper case; `None` if the name has none.
    pub quant: Option<String>,
    /// The name without quantisation, number and extension: different models have different ones.
    pub stem: String,
    pub files: Vec<(FileName, Option<u64>)>,
}

impl Model {
    /// Size of all files, if it is known.
    pub fn bytes(&self) -> Option<u64> {
        self.files.iter().try_fold(0_u64, |sum, (_, bytes)| sum.checked_add((*bytes)?))
    }

    /// The names of its files.
    pub fn names(&self) -> Vec<FileName> {
        self.files.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Whether `wanted` is its quantisation, or that without a prefix such as `UD-`, or its file, in any case.
    fn is(&self, wanted: &str) -> bool {
        let quant = self.quant.as_deref().unwrap_or_default();
        let plain = quant.split_once('-').map(|(_, plain)| plain);
        let is_name = |name: &str| name.eq_ignore_ascii_case(wanted);
        is_name(quant)
            || plain.is_some_and(is_name)
            || self.files.iter().any(|(file, _)| is_name(file.as_str()) || is_name(file.base()))
    }

    /// Its place in [`PREFERRED`]: prefixes come after the plain name.
    fn rank(&self) -> (usize, bool) {
        let quant = self.quant.as_deref().unwrap_or_default();
        let (prefix, plain) = quant.split_once('-').map_or(("", quant), |parts| parts);
        let place = PREFERRED.split_whitespace().position(|known| known == plain);
        (place.unwrap_or(usize::MAX), !prefix.is_empty())
    }
}

/// Why a model was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was named.
    Named,
    /// It is the usual one, or the only one.
    Usual,
    /// The usual one is missing.
    Instead,
}

struct Parts<'a> {
    stem: &'a str,
    quant: Option<String>,
    /// Number and count of a split file.
    split: Option<(u32, u32)>,
}

impl<'a> Parts<'a> {
    fn of(name: &'a str) -> Option<Parts<'a>> {
        static SPLIT: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"(?i)^(.+)-(\d{5})-of-(\d{5})$").expect("a valid pattern"));
        static QUANT: LazyLock<Regex> = LazyLock::new(|| {
            let pattern = r"(?i)^(?:(.*?)[-._/])?((?:UD-|i1-|SOTA-)?(?:I?Q[1-8](?:_[0-9A-Z]+)*|TQ[12]_0|BF16|FP?16|FP?32|MXFP4(?:_MOE)?|NVFP4))((?:[-._].*)?)$";
            Regex::new(pattern).expect("a valid pattern")
        });
        let is_gguf = name.len() > 5 && name.get(name.len() - 5..)?.eq_ignore_ascii_case(".gguf");
        let whole = name.get(..name.len() - 5).filter(|_| is_gguf)?;
        let found = SPLIT.captures(whole);
        let split = found.as_ref().and_then(|parts| Some((parts[2].parse().ok()?, parts[3].parse().ok()?)));
        let stem = found.and_then(|parts| parts.get(1)).map_or(whole, |stem| stem.as_str());
        let base = stem.rfind('/').map_or(0, |slash| slash + 1);
        // The quantisation may be that of the folder alone.
        let quant = QUANT.captures(&stem[base..]).map(|parts| (base, parts));
        let quant =
            quant.or_else(|| QUANT.captures(stem.get(..base)?.trim_end_matches('/')).map(|parts| (0, parts)));
        let Some((start, parts)) = quant else { return Some(Parts { stem, quant: None, split }) };
        let label = parts[2].to_uppercase().replace("FP16", "F16").replace("FP32", "F32");
        let end = start + parts.get(1).map_or(0, |stem| stem.end());
        Some(Parts { stem: &stem[..end], quant: Some(label), split })
    }
}

/// The complete models among files.
pub fn models(files: impl IntoIterator<Item = (FileName, Option<u64>)>) -> Vec<Model> {
    let mut models: Vec<(Option<u32>, Model)> = Vec::new();
    let mut files: Vec<(FileName, Option<u64>)> = files.into_iter().collect();
    files.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (name, bytes) in files {
        let base = name.base().to_lowercase();
        let Some(Parts { stem, quant, split }) = Parts::of(name.as_str()) else { continue };
        if NO_MODELS.iter().any(|word| base.contains(word)) {
            continue;
        }
        let (number, count) = split.map_or((1, None), |(number, count)| (number, Some(count)));
        match models.last_mut() {
            // Sorted by name, the files of a split one follow each other.
            Some((Some(of), model))
                if count == Some(*of)
                    && (&*model.stem, &model.quant) == (stem, &quant)
                    && model.files.len() as u32 + 1 == number =>
            {
                model.files.push((name, bytes));
            }
            _ if number == 1 => {
                let stem = stem.to_owned();
                models.push((count, Model { quant, stem, files: vec![(name, bytes)] }));
            }
            _ => {}
        }
    }
    let is_whole =
        |(count, model): &(Option<u32>, Model)| count.is_none_or(|count| model.files.len() as u32 == count);
    models.into_iter().filter(is_whole).map(|(_, model)| model).collect()
}

/// The model that `wanted` names, by quantisation or file, or the usual one. `None` if there is none.
pub fn choose<'a>(models: &'a [Model], wanted: Option<&str>) -> Option<(&'a Model, Reason)> {
    let best = |models: &mut dyn Iterator<Item = &'a Model>| {
        // Of models with equal ranks, such as sizes of a family, the first by name.
        models.min_by_key(|model| model.rank())
    };
    match wanted {
        Some(wanted) => {
            best(&mut models.iter().filter(|model| model.is(wanted))).map(|model| (model, Reason::Named))
        }
        None => best(&mut models.iter()).map(|model| {
            let is_usual = models.len() == 1 || model.rank() == (0, false);
            (model, if is_usual { Reason::Usual } else { Reason::Instead })
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[&str]) -> Vec<Model> {
        models(files.iter().map(|name| (name.parse().expect("a name"), Some(1))))
    }

    fn chosen(files: &[&str], wanted: Option<&str>) -> Option<(String, Reason)> {
        choose(&found(files), wanted).map(|(model, reason)| (model.files[0].0.to_string(), reason))
    }

    /// The names are those of files on the hub.
    #[test]
    fn names_tell_the_quantisation() {
        for (name, stem, quant) in [
            ("Qwen3-0.6B-Q8_0.gguf", "Qwen3-0.6B", Some("Q8_0")),
            ("qwen2.5-0.5b-instruct-q4_k_m.gguf", "qwen2.5-0.5b-instruct", Some("Q4_K_M")),
            ("qwen2.5-0.5b-instruct-fp16.gguf", "qwen2.5-0.5b-instruct", Some("F16")),
            ("tinyllama-1.1b-chat-v1.0.Q4_K_M.gguf", "tinyllama-1.1b-chat-v1.0", Some("Q4_K_M")),
            ("Qwen3-30B-A3B-UD-Q4_K_XL.gguf", "Qwen3-30B-A3B", Some("UD-Q4_K_XL")),
            ("model.i1-IQ2_M.gguf", "model", Some("I1-IQ2_M")),
            ("UD-IQ1_S/DeepSeek-R1-UD-IQ1_S-00001-of-00004.gguf", "UD-IQ1_S/DeepSeek-R1", Some("UD-IQ1_S")),
            ("BF16/Qwen3-14B-BF16-00001-of-00002.gguf", "BF16/Qwen3-14B", Some("BF16")),
            ("Q8_0/model-00001-of-00002.gguf", "", Some("Q8_0")),
            ("gpt-oss-20b-MXFP4.gguf", "gpt-oss-20b", Some("MXFP4")),
            ("gpt-oss-20b-mxfp4.gguf", "gpt-oss-20b", Some("MXFP4")),
            ("gemma-3-1b-it-q4_0.gguf", "gemma-3-1b-it", Some("Q4_0")),
            ("Q4_K_M.gguf", "", Some("Q4_K_M")),
            ("model.gguf", "model", None),
        ] {
            let parts = Parts::of(name).expect("a GGUF file");
            assert_eq!((parts.stem, parts.quant.as_deref()), (stem, quant), "{name}");
        }
        assert!(Parts::of("README.md").is_none() && Parts::of(".gguf").is_none());
    }

    #[test]
    fn the_usual_quantisation_is_q4_k_m() {
        let all = ["m-BF16.gguf", "m-IQ4_XS.gguf", "m-Q4_K_M.gguf", "m-Q8_0.gguf", "m-UD-Q4_K_M.gguf"];
        assert_eq!(chosen(&all, None), Some(("m-Q4_K_M.gguf".into(), Reason::Usual)));
        assert_eq!(
            chosen(&["m-BF16.gguf", "m-Q8_0.gguf"], None),
            Some(("m-Q8_0.gguf".into(), Reason::Instead))
        );
        assert_eq!(chosen(&["m-Q8_0.gguf"], None), Some(("m-Q8_0.gguf".into(), Reason::Usual)));
        assert_eq!(chosen(&["README.md"], None), None);
    }

    #[test]
    fn a_quantisation_may_be_named() {
        let all = ["m-Q4_K_M.gguf", "m-Q4_K_S.gguf", "m-UD-Q4_K_M.gguf", "m-UD-Q4_K_XL.gguf"];
        for (wanted, name) in [
            ("q4_k_s", Some("m-Q4_K_S.gguf")),
            ("Q4_K_M", Some("m-Q4_K_M.gguf")),
            ("ud-q4_k_m", Some("m-UD-Q4_K_M.gguf")),
            ("Q4_K_XL", Some("m-UD-Q4_K_XL.gguf")),
            ("m-q4_k_s.gguf", Some("m-Q4_K_S.gguf")),
            ("Q4_K", None),
            ("Q8_0", None),
        ] {
            assert_eq!(
                chosen(&all, Some(wanted)),
                name.map(|name| (name.to_owned(), Reason::Named)),
                "{wanted}"
            );
        }
    }

    #[test]
    fn split_files_belong_together() {
        let all = [
            "Q8_0/m-Q8_0-00001-of-00002.gguf",
            "Q8_0/m-Q8_0-00002-of-00002.gguf",
            "m-Q4_0-00001-of-00002.gguf",
        ];
        let models = found(&all);
        assert_eq!(models.len(), 1, "{models:?}");
        assert_eq!((models[0].names().len(), models[0].bytes()), (2, Some(2)));
        assert_eq!(found(&["m-00001-of-00003.gguf", "m-00003-of-00003.gguf"]), []);
    }

    #[test]
    fn projectors_and_matrices_are_no_models() {
        assert_eq!(
            found(&["mmproj-F16.gguf", "mmproj-model-Q8_0.gguf", "imatrix_unsloth.gguf", "a.imatrix.gguf"]),
            []
        );
        assert_eq!(chosen(&["mmproj-F16.gguf", "m-Q8_0.gguf"], Some("F16")), None);
    }
}
