//! A `match` on operations must list them all: a wildcard would silently accept a new operation.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

const OPERATION: &str = "Op";

/// The lines of wildcard arms in matches whose other arms name operations.
pub(super) fn lines(tokens: TokenStream) -> Vec<usize> {
    let mut found = Vec::new();
    search(tokens, &mut found);
    found
}

fn search(tokens: TokenStream, found: &mut Vec<usize>) {
    let mut after_match = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                if after_match && group.delimiter() == Delimiter::Brace {
                    after_match = false;
                    let patterns = patterns(group.stream());
                    if patterns.iter().any(|pattern| names_operation(pattern)) {
                        found.extend(patterns.iter().filter_map(|pattern| wildcard_line(pattern)));
                    }
                }
                search(group.stream(), found);
            }
            TokenTree::Ident(word) if word == "match" => after_match = true,
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// The patterns of a match, with their guards. The body of an arm is a block, or ends with a comma.
fn patterns(arms: TokenStream) -> Vec<Vec<TokenTree>> {
    let (mut patterns, mut pattern, mut body) = (Vec::new(), Vec::new(), None);
    for token in arms {
        let is_comma = is_punct(&token, ',');
        let is_block = matches!(&token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        body = match body {
            None if is_punct(&token, '>') && pattern.pop_if(|last| is_punct(last, '=')).is_some() => {
                patterns.push(std::mem::take(&mut pattern));
                Some(0)
            }
            None if is_comma && pattern.is_empty() => None,
            None => {
                pattern.push(token);
                None
            }
            Some(_) if is_comma => None,
            Some(0) if is_block => None,
            Some(len) => Some(len + 1),
        };
    }
    patterns
}

fn names_operation(pattern: &[TokenTree]) -> bool {
    let here = pattern.windows(2).any(|pair| {
        matches!(&pair[0], TokenTree::Ident(word) if word == OPERATION) && is_punct(&pair[1], ':')
    });
    here || pattern.iter().any(|token| match token {
        TokenTree::Group(group) => names_operation(&group.stream().into_iter().collect::<Vec<_>>()),
        TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

/// The line of a wildcard pattern: `_`, or a binding.
fn wildcard_line(pattern: &[TokenTree]) -> Option<usize> {
    let guard = pattern.iter().position(|token| matches!(token, TokenTree::Ident(word) if word == "if"));
    let pattern = &pattern[..guard.unwrap_or(pattern.len())];
    let name = match pattern {
        [TokenTree::Ident(name)] => name,
        [TokenTree::Ident(by), TokenTree::Ident(name)] if by == "ref" => name,
        _ => return None,
    };
    let is_binding = name.to_string().starts_with(|first: char| first == '_' || first.is_lowercase());
    is_binding.then(|| name.span().start().line)
}

pub(super) fn is_punct(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<usize> {
        lines(source.parse().expect("Rust"))
    }

    #[test]
    fn wildcards_in_matches_on_operations_are_found() {
        assert_eq!(found("match op {\n Op::Add { .. } => 1,\n _ => 2,\n}"), [3]);
        assert_eq!(found("match op {\n Op::Add { .. } => { 1 }\n ref other => f(other),\n}"), [3]);
        assert_eq!(found("match (a, b) {\n (Op::Add { .. }, 1) => 1,\n rest if x => 2,\n _ => 3\n}"), [3, 4]);
        assert_eq!(found("fn f() { loop { match x { graph::Op::Add {..} => 1, _ => 2 } } }"), [1]);
    }

    #[test]
    fn other_matches_may_have_wildcards() {
        let none: [usize; 0] = [];
        assert_eq!(found("match op { Op::Add { .. } | Op::Gate { .. } => 1, Op::Input { .. } => 2 }"), none);
        assert_eq!(found("match kind { Kind::Op => 1, _ => 2 }"), none);
        assert_eq!(found("match x { 1 => match op { Op::Add { .. } => 1 }, _ => 2 }"), none);
        assert_eq!(found("match x { 1 => if let Op::Add { .. } = op { 1 } else { 2 }, _ => 2 }"), none);
    }
}
