//! Regular expressions of pre-tokenizers, from one program's notation to another's.

/// A regular expression of a `tokenizer.json` as crates/tokenizer writes it: without flags, and without groups that
/// change nothing.
pub(crate) fn normal_form(pattern: &str) -> String {
    let mut written = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some((before, inside)) = rest.split_once("(?i:") {
        written.push_str(before);
        // Groups of real models have no groups inside.
        let (inside, after) = inside.split_once(')').unwrap_or((inside, ""));
        let alone =
            (written.is_empty() || written.ends_with('|')) && (after.is_empty() || after.starts_with('|'));
        let inside = both_cases(inside);
        written.push_str(&if alone { inside } else { format!("(?:{inside})") });
        rest = after;
    }
    written.push_str(rest);
    written.replace(r"\p{N}{1}", r"\p{N}")
}

/// `pattern`, of literals and classes, for upper and lower case.
fn both_cases(pattern: &str) -> String {
    let mut written = String::new();
    let mut in_class = false;
    for c in pattern.chars() {
        in_class = if in_class { c != ']' } else { c == '[' };
        if !c.is_ascii_alphabetic() {
            written.push(c);
        } else if in_class {
            written.extend([c.to_ascii_lowercase(), c.to_ascii_uppercase()]);
        } else {
            written.extend(['[', c.to_ascii_lowercase(), c.to_ascii_uppercase(), ']']);
        }
    }
    written
}

/// What crates/tokenizer does without a regular expression, as one: only ASCII digits count in the first two, and
/// llama.cpp's own groups of digits keep the text before a number.
const DIGITS: [(&str, &str); 3] = [
    (r"\d{1,3}(?=(?:\d{3})*\b)", r"[0-9]{1,3}(?=(?:[0-9]{3})*(?![0-9A-Za-z_]))"),
    (r"(?=(\d{3})+(?!\d))", r"(?=([0-9]{3})+(?![0-9]))"),
    (r"\p{AFMoE_digits}", r"(?<=\p{N})(?=(?:\p{N}{3})+(?!\p{N}))|(?<=\p{N})(?!\p{N})"),
];

/// A regular expression of crates/tokenizer in the notation of Oniguruma, which the package `tokenizers` uses.
pub(crate) fn exported(pattern: &str) -> String {
    if let Some((_, written)) = DIGITS.iter().find(|(known, _)| *known == pattern) {
        return (*written).to_owned();
    }
    // Ours are for one text, Oniguruma's `$` is for lines.
    let pattern = pattern.strip_suffix('$').map_or(pattern.to_owned(), |start| format!(r"{start}\z"));
    differences(&pattern)
}

/// Classes `[A--B]` as `[A&&[^B]]`.
fn differences(pattern: &str) -> String {
    let mut written = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some((before, excluded)) = rest.split_once("--") {
        written.push_str(before);
        let (excluded, after) = match excluded.strip_prefix('[') {
            Some(class) => class.split_once("]").unwrap_or((class, "")),
            None => excluded
                .split_once(']')
                .map_or((excluded, ""), |(class, _)| (class, &excluded[class.len()..])),
        };
        written.push_str("&&[^");
        written.push_str(excluded);
        written.push(']');
        rest = after;
    }
    written.push_str(rest);
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_models_become_ours() {
        assert_eq!(normal_form(r"(?i:'s|'ll)|\p{N}{1}|a"), r"'[sS]|'[lL][lL]|\p{N}|a");
        assert_eq!(normal_form("'(?i:[sd]|ll)|x(?i:'s)?"), "'(?:[sSdD]|[lL][lL])|x(?:'[sS])?");
        for row in tokenizer::pre_tokenizer_rows() {
            for pattern in row.patterns {
                assert_eq!(normal_form(pattern), *pattern);
            }
        }
    }

    #[test]
    fn patterns_are_written_for_oniguruma() {
        assert_eq!(exported(r"[\p{L}--[a-z]]*[\p{L}--[A-Z]]+"), r"[\p{L}&&[^a-z]]*[\p{L}&&[^A-Z]]+");
        assert_eq!(exported(r"[[一-龥]--\s]+"), r"[[一-龥]&&[^\s]]+");
        assert_eq!(exported(r"\s+$"), r"\s+\z");
    }
}
