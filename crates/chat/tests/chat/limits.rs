//! Templates that fail, refuse, or do not come to an end.

use std::time::{Duration, Instant};

use chat::{Error, MAX_OUTPUT_BYTES, MAX_SOURCE_BYTES, Message, Options, Specials, Template};

fn render(source: &str) -> Result<String, Error> {
    let template = Template::new(source, Specials::default())?;
    template.render(&[Message::new("user", "hi")], &Options::default()).map(|prompt| prompt.to_string())
}

#[test]
fn a_refusal_carries_the_templates_own_words() {
    let error =
        render("\n\n{{ raise_exception('only ' ~ messages[0].content ~ '!') }}").expect_err("refused");
    assert!(matches!(&error, Error::Raised { line: 3, message } if message == "only hi!"), "{error:?}");
    // Also from within a macro.
    let error = render("{% macro no() %}\n{{ raise_exception('no') }}{% endmacro %}{{ no() }}");
    assert!(matches!(&error, Err(Error::Raised { message, .. }) if message == "no"), "{error:?}");
}

#[test]
fn errors_name_the_line() {
    assert!(matches!(render("a\n{% if %}"), Err(Error::Syntax { line: 2, .. })));
    assert!(matches!(render("a\n\n{{ messages.nothing.at_all }}"), Err(Error::Render { line: 3, .. })));
    assert!(matches!(
        render("{{ 1\n + messages | nofilter }}"),
        Err(Error::Render { .. } | Error::Syntax { .. })
    ));
    let message = render("x\n{{ 'a'.nomethod() }}").expect_err("no such method").to_string();
    assert!(message.contains("line 2") && message.contains("nomethod"), "{message}");
    assert!(matches!(render("{{ strftime_now('%!') }}"), Err(Error::Render { line: 1, .. })));
}

/// Guards against hangs only: each of these would go on for hours, or for ever.
#[test]
fn endless_templates_are_stopped() {
    let start = Instant::now();
    let nested = "{% for i in range(100000) %}".repeat(4) + &"{% endfor %}".repeat(4);
    assert!(matches!(render(&nested), Err(Error::TooManySteps { .. })));
    let ones = "{% for i in range(100000) %}{% for j in range(100000) %}1{% endfor %}{% endfor %}";
    assert!(matches!(render(ones), Err(Error::TooManySteps { .. } | Error::TooMuchOutput)));
    let long = format!("{{% for i in range(100000) %}}{}{{% endfor %}}", "x".repeat(1000));
    assert!(matches!(render(&long), Err(Error::TooMuchOutput)));
    let recursion = "{% macro again(n) %}{{ again(n + 1) }}{% endmacro %}{{ again(0) }}";
    assert!(matches!(render(recursion), Err(Error::Render { .. })));
    let deep = "(".repeat(100_000);
    assert!(matches!(render(&format!("{{{{ {deep} }}}}")), Err(Error::Syntax { .. })));
    assert!(start.elapsed() < Duration::from_secs(120), "{:?}", start.elapsed());
}

/// A caller's time is that of all attempts together, and none at all is too little for any work.
#[test]
fn renderings_end_in_time() {
    let source = "{% for message in messages %}{{ message.content }}{% endfor %}";
    let template = Template::new(source, Specials::default()).expect("a good template");
    let render = |time| {
        let options = Options { time, ..Options::default() };
        template.render(&[Message::new("system", "a"), Message::new("user", "b".repeat(10_000))], &options)
    };
    render(Duration::from_secs(100)).expect("enough time");
    let error = render(Duration::ZERO).expect_err("no time");
    assert!(matches!(error, Error::TooMuchTime { line: 1 }), "{error:?}");
    assert!(error.to_string().contains("in time"), "{error}");
}

#[test]
fn limits_name_themselves() {
    let long = "x".repeat(MAX_SOURCE_BYTES + 1);
    assert!(matches!(render(&long), Err(Error::SourceTooLong { found }) if found == long.len()));
    let content = "x".repeat(MAX_OUTPUT_BYTES);
    let template = Template::new("{{ messages[0].content }}", Specials::default()).expect("a good template");
    let render = |content: &str| template.render(&[Message::new("user", content)], &Options::default());
    assert_eq!(render(&content).expect("just fits").to_string(), content);
    assert!(matches!(render(&(content + "x")), Err(Error::TooMuchOutput)));
}

/// Each of these overflows an ordinary stack within minijinja, or asks for all memory.
#[test]
fn nothing_nested_or_multiplied_brings_the_process_down() {
    for (start, link, end) in [
        ("{{ 1", "+1", " }}"),
        ("{{ 1", "~1", " }}"),
        ("{{ a", ".b", " }}"),
        ("{{ a", "|e", " }}"),
        ("{{ ", "not ", "1 }}"),
        ("{{ ", "-", "1 }}"),
        ("{{ 1", " and 1", " }}"),
        ("{{ 1", "**1", " }}"),
        ("{{ ", "[", " }}"),
        ("{% if 1 %}", "{% if 1 %}", ""),
        ("{% if 1 %}", "{% elif 1 %}", "{% endif %}"),
    ] {
        // Most are expressions like any other; that there is an answer at all is what counts.
        let links = MAX_SOURCE_BYTES / link.len() - 10;
        let _ = render(&format!("{start}{}{end}", link.repeat(links)));
    }
    // Chains of operators around brackets around chains.
    let links = "+1".repeat(190);
    let _ = render(&format!("{{{{ {}1{} }}}}", "(".repeat(70), format!("{links})").repeat(70)));
    // Chains of operators around brackets around chains.
    for (levels, links) in [(30, 160), (60, 100), (70, 80)] {
        let chain = "+1".repeat(links);
        let _ = render(&format!("{{{{ {}x{} }}}}", "(".repeat(levels), format!("{chain})").repeat(levels)));
    }
    let nested =
        "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}";
    assert!(matches!(render(nested), Err(Error::Render { .. })));
    let nested = nested.replace("100000", "60");
    for end in ["{{ ns.x }}", "{{ ns.x | tojson }}", "{{ ns.x ~ '' }}", "{{ ns.x == [] }}"] {
        assert!(render(&format!("{nested}{end}")).is_ok());
    }
    // As deep as the steps allow: one for a level, and dropped when they run out.
    let lists = |levels| format!("{}ns.x{}", "[".repeat(levels), "]".repeat(levels));
    let deepest = format!(
        "{{% set ns = namespace(x=[]) %}}{{% for i in range(100000) %}}{{% set ns.x = {} %}}{{% endfor %}}",
        lists(40)
    );
    let deepest = render(&deepest);
    assert!(matches!(deepest, Err(Error::Render { .. })), "{deepest:?}");
    let cycle = "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}";
    assert!(matches!(render(cycle), Err(Error::Render { .. })));
    for filter in [
        "batch(9999999999, 1)",
        "slice(9999999999)",
        "center(9999999999)",
        "indent(9999999999)",
        "indent(width=9999999999)",
    ] {
        let source = format!("{{{{ 'a\nb' | {filter} | list }}}}");
        let found = render(&source);
        assert!(found.is_err(), "{filter}");
    }
}

/// minijinja 3.0.5 panics at this by itself.
#[test]
fn an_empty_list_can_be_reversed() {
    assert_eq!(render("{% for x in [][::-1] %}{{ x }}{% endfor %}.").expect("fine"), ".");
}

/// Nor can it cut within a character.
#[test]
fn a_format_without_a_conversion_is_refused() {
    assert!(matches!(render("{{ '%é' | format(1) }}"), Err(Error::Render { line: 1, .. })));
    assert_eq!(render("{{ 'é%sé%%é' | format(1) }}").expect("fine"), "é1é%é");
}

#[test]
fn a_file_may_have_no_template() {
    let mut metadata = gguf::Metadata::default();
    let template = Template::from_metadata(&metadata, Specials::default());
    assert!(matches!(template, Ok(None)));
    metadata.insert("tokenizer.chat_template", gguf::Value::U32(1));
    assert!(matches!(Template::from_metadata(&metadata, Specials::default()), Err(Error::WrongType(_))));
    metadata.insert("tokenizer.chat_template", gguf::Value::String("{{ bos_token }}x".into()));
    let specials = Specials { bos: Some("<s>".into()), ..Specials::default() };
    let template = Template::from_metadata(&metadata, specials).expect("good").expect("there is one");
    assert_eq!(template.source(), "{{ bos_token }}x");
    assert_eq!(template.render(&[], &Options::default()).expect("good").to_string(), "<s>x");
}
