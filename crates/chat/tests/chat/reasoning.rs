//! Answers split into reasoning and content.

use chat::{Answer, AnswerParser, Calls, Delta, Message, Options, Specials, Template, TurnEnd};
use proptest::prelude::*;

const CHANNEL: (u32, &str) = (7, "<|channel|>");
const MESSAGE: (u32, &str) = (8, "<|message|>");
const END: (u32, &str) = (9, "<|end|>");
const OTHER: (u32, &str) = (10, "<|other|>");

const THINK: &str = "{% for m in messages %}[{{ m.role }}]{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>\
    {% endif %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]{% if enable_thinking is defined %}\
    {{ '<think>\n' if enable_thinking else '<think>\n\n</think>\n\n' }}{% endif %}{% endif %}";
const HARMONY: &str = "{% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'assistant' %}\
    {% if m.thinking %}<|channel|>analysis<|message|>{{ m.thinking }}<|end|><|start|>assistant{% endif %}\
    <|channel|>final{% endif %}<|message|>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}";
const GEMMA: &str =
    "{{ '<|channel>thought\n<channel|>' }}{% for m in messages %}{{ m.content }}{% endfor %}<|turn>model\n";
/// Composes its marks, as Kimi K3's does.
const COMPOSED: &str = "{%- macro open(n) %}{{ '<|open|>' + n + '<|sep|>' }}{% endmacro %}\
    {%- macro close(n) %}{{ '<|close|>' + n + '<|sep|>' }}{% endmacro %}{% for m in messages %}\
    {{ open('think') + m.reasoning_content | default('') + close('think') + open('response') + m.content + close('response') }}{% endfor %}\
    {% if add_generation_prompt %}{{ open('think') }}{% endif %}";
const MISTRAL: &str = "{% for m in messages %}{{ m.content }}{{ '[THINK]' if false }}{% endfor %}";
const PLAIN: &str = "{% for m in messages %}{{ m.content }}{% endfor %}";

fn template(source: &str) -> Template {
    let tokens = [CHANNEL, MESSAGE, END, OTHER].map(|(id, text)| (id, text.to_owned())).into();
    Template::new(source, Specials { bos: None, eos: None, tokens }).expect("a template")
}

fn parser(source: &str, enable_thinking: Option<bool>) -> AnswerParser {
    let template = template(source);
    let mut options = Options::default();
    options.variables.extend(enable_thinking.map(|value| ("enable_thinking".to_owned(), value.into())));
    template.render(&[Message::new("user", "q")], &options).expect("a prompt").parser(Calls::Whole)
}

fn split(mut parser: AnswerParser, pieces: &[&str]) -> (String, String) {
    let mut deltas: Vec<Delta> = pieces.iter().flat_map(|piece| parser.push_text(piece)).collect();
    deltas.extend(parser.finish());
    let answer = Answer::from_iter(deltas);
    (answer.reasoning, answer.content)
}

/// Template, `enable_thinking`, answer, reasoning, content.
type Case = (&'static str, Option<bool>, &'static str, &'static str, &'static str);

const CASES: &[Case] = &[
    (THINK, None, "<think>\nHm.\n\nYes.\n</think>\n\n4", "Hm.\n\nYes.", "4"),
    (THINK, None, "\n <think></think>\n\n4 \n", "", "4 \n"),
    (THINK, None, " 4 <think>no</think>", "", " 4 <think>no</think>"),
    (THINK, None, "<think>a < b </thin k> c", "a < b </thin k> c", ""),
    (THINK, None, "<thin", "", "<thin"),
    (THINK, None, "<think>a</think> b</think>", "a", "b</think>"),
    (THINK, None, "", "", ""),
    // The prompt has opened it, or opened and closed.
    (THINK, Some(true), "Hm.</think>4", "Hm.", "4"),
    (THINK, Some(true), "Hm.\n", "Hm.", ""),
    // It is written twice.
    (THINK, Some(true), "<think>\nHm. <think></think>4", "Hm. <think>", "4"),
    (THINK, Some(false), "\n4", "", "4"),
    (
        HARMONY,
        None,
        "<|channel|>analysis<|message|>Hm. <|end|><|start|>assistant<|channel|>final<|message|>4<|return|>",
        "Hm.",
        "4",
    ),
    (HARMONY, None, "<|channel|>final<|message|>4", "", "4"),
    (
        HARMONY,
        None,
        "<|channel|>commentary<|message|>Wait.<|end|><|start|>assistant<|channel|>analysis<|message|>Hm",
        "Hm",
        "Wait.",
    ),
    (HARMONY, None, "plain", "", "plain"),
    // Unexpected headers: a type, an unknown channel, a tool that there is not, a recipient before the channel, a role.
    (HARMONY, None, "<|channel|>final <|constrain|>json<|message|>{\"a\": 1}<|return|>", "", "{\"a\": 1}"),
    (
        HARMONY,
        None,
        "<|channel|>comment?<|message|>Wait. <|end|><|start|>assistant<|channel|>final<|message|>4",
        "",
        "Wait. 4",
    ),
    (HARMONY, None, "<|channel|>commentary to=container.exec code<|message|>ls<|call|>", "", "ls"),
    (
        HARMONY,
        None,
        "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant to=python<|channel|>commentary code<|message|>1+1<|call|>",
        "Hm",
        "1+1",
    ),
    (HARMONY, None, "<|channel|>analysis to=python code<|message|>1+1<|call|>", "1+1<|call|>", ""),
    (HARMONY, None, "<|start|>assistant<|message|>4", "", "4"),
    (HARMONY, None, "<|channel|>analysis<|message|>Hm<|channel|>final<|message|>4", "Hm", "4"),
    (GEMMA, None, "<|channel>thought\nHm.<channel|>4", "Hm.", "4"),
    (COMPOSED, None, "Hm.<|close|>think<|sep|><|open|>response<|sep|>4<|close|>response<|sep|>", "Hm.", "4"),
    (MISTRAL, None, "[THINK]Hm.[/THINK]4", "Hm.", "4"),
    (PLAIN, None, "<think>Hm.</think>4", "", "<think>Hm.</think>4"),
];

#[test]
fn reasoning_is_what_the_marks_of_the_template_enclose() {
    for &(source, thinking, answer, reasoning, content) in CASES {
        let found = split(parser(source, thinking), &[answer]);
        assert_eq!(found, (reasoning.to_owned(), content.to_owned()), "{answer:?}");
        let characters: Vec<String> = answer.chars().map(String::from).collect();
        let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
        assert_eq!(split(parser(source, thinking), &characters), found, "{answer:?} by characters");
    }
}

/// Of a mark that is cut, nothing is reasoning or content.
#[test]
fn cut_answers_show_no_marks() {
    for (thinking, answer, reasoning, content) in [
        (None, "<thin", "", ""),
        (None, "<think>Hm. \n</thi", "Hm.", ""),
        (None, "<think>Hm.</think>\n\n", "Hm.", ""),
        (None, "<think>Hm.</think>4 <thin", "Hm.", "4 <thin"),
        (Some(true), "Hm, <", "Hm,", ""),
        (None, "4", "", "4"),
    ] {
        let mut parser = parser(THINK, thinking);
        let mut deltas = parser.push_text(answer);
        deltas.extend(parser.cut());
        let all = Answer::from_iter(deltas);
        assert_eq!((&*all.reasoning, &*all.content), (reasoning, content), "{answer:?}");
    }
}

/// Marks may be special tokens, which are not printed.
#[test]
fn special_tokens_are_marks() {
    let mut parser = parser(HARMONY, None);
    let mut deltas = Vec::new();
    let tokens =
        [(7, ""), (1, "analysis"), (8, ""), (1, "Hm"), (10, ""), (9, ""), (1, "<|start|>assistant"), (7, "")];
    for (token, text) in tokens.into_iter().chain([(1, "final"), (8, ""), (1, "4")]) {
        deltas.extend(parser.push(token, text));
    }
    deltas.extend(parser.finish());
    let all = Answer::from_iter(deltas);
    assert_eq!((&*all.reasoning, &*all.content), ("Hm", "4"));
}

#[test]
fn what_is_decided_is_not_held_back() {
    let mut parser = parser(THINK, None);
    let mut push = |text| parser.push_text(text);
    assert_eq!(push("<think>Hm"), [Delta::Reasoning("Hm".into())]);
    assert_eq!(push(", yes. </"), [Delta::Reasoning(", yes.".into())]);
    assert_eq!(push("b>"), [Delta::Reasoning(" </b>".into())]);
    assert_eq!(push("</think>\n\n4"), [Delta::Content("4".into())]);
    assert_eq!(push(" <think"), [Delta::Content(" <think".into())]);
}

#[test]
fn reasoning_can_be_turned_off_where_the_template_knows_how() {
    let off = template(THINK).without_reasoning().expect("it knows");
    assert_eq!(off["enable_thinking"], false);
    assert_eq!(template(HARMONY).without_reasoning(), None);
    for (source, has) in [(THINK, true), (HARMONY, true), (GEMMA, true), (COMPOSED, true), (PLAIN, false)] {
        assert_eq!(template(source).has_reasoning(), has);
    }
}

/// Solar Open ends reasoning and answers alike, with a token or, in another vocabulary, with its text.
#[test]
fn what_ends_reasoning_does_not_end_an_answer() {
    let source = "{% for m in messages %}<|begin|>{{ m.role }}{% if m.reasoning_content %}<|think|>{{ m.reasoning_content }}<|end|>\
        <|begin|>assistant{% endif %}<|content|>{{ m.content }}<|end|>{% endfor %}";
    assert_eq!(template(source).turn_end(), None);
    assert_eq!(Template::new(source, Specials::default()).expect("a template").turn_end(), None);
    let other = source.replace("<|end|>{% endfor %}", "<|other|>{% endfor %}");
    assert_eq!(template(&other).turn_end(), Some(&TurnEnd::Token(10)));
}

proptest! {
    #[test]
    fn pieces_make_no_difference(
        case in prop::sample::select(CASES),
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "<think>", "</think>", "<|channel|>", "analysis", "final", "<|message|>", "<|end|>", "<|start|>", "assistant",
                "<|open|>", "<|close|>", "think", "response", "<|sep|>", "<|channel>thought", "<channel|>", "[THINK]", "[/THINK]",
                " ", "\n", "a", "ü", "<", "</",
            ]), 0..20),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let (source, thinking, ..) = case;
        let answer: Vec<char> = parts.concat().chars().collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(answer.len() + 1)).collect();
        cuts.extend([0, answer.len()]);
        cuts.sort_unstable();
        let pieces: Vec<String> = cuts.windows(2).map(|cut| answer[cut[0]..cut[1]].iter().collect()).collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let whole: String = answer.iter().collect();
        prop_assert_eq!(split(parser(source, thinking), &pieces), split(parser(source, thinking), &[&whole]));
    }
}
