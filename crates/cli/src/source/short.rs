//! Short names, from the table in `short_names.txt`.

use super::name::HubName;

const TABLE: &str = include_str!("short_names.txt");

/// The short names and what they stand for.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, HubName)> {
    let entries = TABLE.lines().filter(|line| !line.starts_with('#'));
    entries.filter_map(|line| {
        let mut words = line.split_whitespace();
        let (name, repo, quant) = (words.next()?, words.next()?, words.next()?);
        Some((name, HubName::of(&format!("{repo}:{quant}")).ok()?))
    })
}

/// What `name` stands for; without a tag, the first of its family.
pub(crate) fn find(name: &str) -> Option<HubName> {
    let name = name.strip_suffix(":latest").unwrap_or(name);
    let is_it = |known: &str| {
        known.eq_ignore_ascii_case(name)
            || family(known).is_some_and(|family| family.eq_ignore_ascii_case(name))
    };
    all().find(|(known, _)| is_it(known)).map(|(_, target)| target)
}

/// The tags of the family of `name`.
pub(crate) fn tags(name: &str) -> Vec<&'static str> {
    let wanted = family(name).unwrap_or(name);
    all().filter(|(known, _)| family(known) == Some(wanted)).map(|(known, _)| known).collect()
}

fn family(name: &str) -> Option<&str> {
    name.split_once(':').map(|(family, _)| family)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_an_entry() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()).count();
        assert_eq!(all().count(), lines);
        let mut names: Vec<_> = all().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), lines, "a name has two lines");
    }

    #[test]
    fn a_family_has_a_usual_size() {
        let target = |name| find(name).map(|target| target.to_string());
        assert_eq!(target("qwen3:0.6b").as_deref(), Some("Qwen/Qwen3-0.6B-GGUF:Q8_0"));
        assert_eq!(target("qwen3"), target("qwen3:8b"));
        assert_eq!(target("Qwen3:latest"), target("qwen3:8b"));
        assert_eq!(target("qwen"), None);
        assert!(tags("gemma3:9b").contains(&"gemma3:4b"));
    }
}
