//! A `match` on operations must list them all: a wildcard would silently accept a new operation.

use std::iter::Peekable;

use proc_macro2::token_stream::IntoIter;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The enum of operations.
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

/// The patterns of a match, with their guards.
fn patterns(arms: TokenStream) -> Vec<Vec<TokenTree>> {
    let mut tokens = arms.into_iter().peekable();
    let (mut patterns, mut pattern) = (Vec::new(), Vec::new());
    while let Some(token) = tokens.next() {
        if is_punct(&token, '=') && tokens.peek().is_some_and(|next| is_punct(next, '>')) {
            tokens.next();
            patterns.push(std::mem::take(&mut pattern));
            skip_body(&mut tokens);
        } else {
            pattern.push(token);
        }
    }
    patterns
}

/// Skips the body of an arm: a block, or an expression up to a comma.
fn skip_body(tokens: &mut Peekable<IntoIter>) {
    let is_block =
        |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
    if tokens.peek().is_some_and(is_block) {
        tokens.next();
        tokens.next_if(|token| is_punct(token, ','));
    } else {
        while tokens.next().is_some_and(|token| !is_punct(&token, ',')) {}
    }
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

fn is_punct(token: &TokenTree, mark: char) -> bool {
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
