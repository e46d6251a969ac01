//! Templates that would take all memory or all time: each is stopped, by name.

use std::time::{Duration, Instant};

use chat::{Error, Message, Options, Specials, Template};

fn render(source: &str) -> Result<String, Error> {
    let template = Template::new(source, Specials::default())?;
    template.render(&[Message::new("user", "hi")], &Options::default()).map(|prompt| prompt.to_string())
}

/// `ns.x` begins as `start`, and `step` is done to it `times` times.
fn repeated(start: &str, times: usize, step: &str) -> String {
    format!(
        "{{% set ns = namespace(x={start}, y='', z=[]) %}}{{% for i in range({times}) %}}{step}{{% endfor %}}"
    )
}

/// A text of 2^`power` bytes in `ns.x`, then `step` again and again.
fn long(power: usize, step: &str) -> String {
    repeated("'a'", power, "{% set ns.x = ns.x ~ ns.x %}") + &repeated_more(step)
}

fn repeated_more(step: &str) -> String {
    format!("{{% for i in range(100000) %}}{step}{{% endfor %}}")
}

/// What each bomb is called, and the bomb.
fn bombs() -> Vec<(&'static str, String)> {
    let set = |value: &str| format!("{{% set ns.x = {value} %}}");
    let chained = |start: &str, line: &str| format!("{{% set x = {start} %}}{}", line.repeat(60));
    vec![
        ("concatenation", repeated("'aaaa'", 100, &set("ns.x ~ ns.x"))),
        ("straight lines", chained("'aaaa'", "{% set x = x ~ x %}")),
        ("sum", repeated("'aaaa'", 100, &set("ns.x + ns.x"))),
        ("product", repeated("'aaaa'", 100, &set("ns.x * 1000"))),
        ("product with the number first", repeated("'aaaa'", 100, &set("1000 * ns.x"))),
        ("lists kept", repeated("'a'", 100_000, "{% set ns.z = ns.z + [ns.x * 100000] %}")),
        ("sum of lists", repeated("[1, 2]", 100, &set("ns.x + ns.x"))),
        ("sum of tuples", repeated("(1, 2)", 100, &set("ns.x + ns.x"))),
        ("product of lists", repeated("[1, 2]", 100, &set("ns.x * 1000"))),
        ("product of tuples", repeated("(1, 2)", 100, &set("ns.x * 1000"))),
        ("constants", "{{ 'a' * 100000000 }}".repeat(1000)),
        ("constant tuples", "{{ (1, 2) * 50000000 }}".to_owned()),
        ("constants at each level", format!("{{{{ x{} }}}}", " + 1".repeat(60_000))),
        ("constant texts at each level", format!("{{{{ x{} }}}}", "~'a'*9999".repeat(20_000))),
        ("a list in itself, written", repeated("['a']", 100, &set("[ns.x, ns.x]")) + "{{ ns.x }}"),
        (
            "a list in itself, compared",
            repeated("['a']", 40, &set("[ns.x, ns.x]")) + "{{ ns.x == ns.x * 1 }}",
        ),
        ("a list in itself, concatenated", repeated("['a']", 40, &set("[ns.x, ns.x]")) + "{{ ns.x ~ '' }}"),
        ("lists quoted and quoted", repeated("'\"'", 100, &set("[ns.x] ~ ''"))),
        ("replace", repeated("'aaaa'", 100, &set("ns.x | replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaaa')"))),
        ("replace of nothing", repeated("'aaaa'", 100, &set("ns.x | replace('', ns.x)"))),
        ("the method replace", repeated("'aaaa'", 100, &set("ns.x.replace('a', ns.x)"))),
        (
            "replace in map",
            repeated("['aaaa']", 100, &set("ns.x | map('replace', 'a', 'aaaaaaaaaaaa') | list")),
        ),
        ("join", repeated("'aaaa'", 100, &set("[ns.x, ns.x, ns.x] | join(ns.x)"))),
        ("join of characters", repeated("'aaaa'", 100, &set("ns.x | join(ns.x)"))),
        ("the method join", repeated("'aaaa'", 100, &set("ns.x.join([ns.x, ns.x, ns.x])"))),
        ("the method format", repeated("'aaaa'", 100, &set("'{0}{0}{0}'.format(ns.x)"))),
        (
            "the width of a format",
            repeated("'a'", 100_000, "{% set ns.z = ns.z + ['{:999}{:999}{:999}'.format(1, 2, 3)] %}"),
        ),
        (
            "indent",
            repeated("'a\n\n\n\n'", 100_000, "{% set ns.z = ns.z + [ns.x | indent(900, true, true)] %}"),
        ),
        ("tojson", repeated("'\\\\\"'", 100, &set("ns.x | tojson"))),
        (
            "tojson's indent",
            repeated("[[[[[1]]]]]", 100_000, "{% set ns.z = ns.z + [ns.x | tojson(indent=64)] %}"),
        ),
        ("escape", repeated("'&&&&'", 100, &set("ns.x | e | replace('a', '&')"))),
        ("upper", long(20, "{% set ns.z = ns.z + [ns.x | upper] %}")),
        ("split", long(20, "{% set ns.z = ns.z + [ns.x.split('a')] %}")),
        (
            "lines",
            repeated("'a\n'", 20, &set("ns.x ~ ns.x"))
                + &repeated_more("{% set ns.z = ns.z + [ns.x.splitlines()] %}"),
        ),
        ("a filter's list", repeated("range(100000)", 100_000, "{% set ns.z = ns.z + [ns.x | list] %}")),
        ("slices of a text", long(20, "{% set ns.z = ns.z + [ns.x[1:]] %}")),
        ("slices of a list", repeated("range(100000)", 100_000, "{% set ns.z = ns.z + [ns.x[1:]] %}")),
        ("slices of slices", repeated("range(100000)", 100_000, &set("ns.x[::-1]"))),
        (
            "a captured block",
            repeated("'aaaa'", 100, "{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}"),
        ),
        (
            "literal text in captures",
            repeated(
                "0",
                100_000,
                &format!("{{% set y %}}{}{{% endset %}}{{% set ns.z = ns.z + [y] %}}", "x".repeat(100_000)),
            ),
        ),
        (
            "one long capture",
            format!(
                "{{% set x %}}{{% for i in range(100000) %}}{}{{% endfor %}}{{% endset %}}",
                "x".repeat(100_000)
            ),
        ),
        (
            "a filtered block",
            repeated(
                "'aaaa'",
                100,
                "{% set y %}{% filter upper %}{{ ns.x }}{{ ns.x }}{% endfilter %}{% endset %}{% set ns.x = y %}",
            ),
        ),
        (
            "a macro",
            "{% macro m(x) %}{{ x }}{{ x }}{% endmacro %}".to_owned()
                + &repeated("'aaaa'", 100, &set("m(ns.x)")),
        ),
        (
            "a caller",
            "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}".to_owned()
                + &repeated(
                    "'aaaa'",
                    100,
                    "{% set y %}{% call m() %}{{ ns.x }}{% endcall %}{% endset %}{% set ns.x = y %}",
                ),
        ),
        (
            "long names of macros",
            format!(
                "{{% macro {0}() %}}{{% endmacro %}}{{% set x %}}{{% for i in range(100000) %}}{{{{ {0} }}}}{{% endfor %}}{{% endset %}}",
                "m".repeat(100_000)
            ),
        ),
        ("equality", long(24, "{% if ns.x == ns.x %}{% endif %}")),
        ("order", long(24, "{% if ns.x < ns.x %}{% endif %}")),
        ("chained comparison", long(24, "{% if ns.x <= ns.x <= ns.x %}{% endif %}")),
        ("search", long(24, "{% if 'b' in ns.x %}{% endif %}")),
        ("search for an item", repeated("range(100000)", 100_000, "{% if -1 in ns.x %}{% endif %}")),
        ("the method find", long(24, "{% set y = ns.x.find('b') %}")),
        ("the method count", long(24, "{% set y = ns.x.count('b') %}")),
        ("length", long(24, "{% set y = ns.x | length %}")),
        ("a test", long(24, "{% if ns.x is lower %}{% endif %}")),
        ("a test of equality", long(24, "{% if ns.x is eq(ns.x) %}{% endif %}")),
        ("a test in select", long(24, "{% set y = [ns.x, ns.x] | select('in', [ns.x]) %}")),
        (
            "a selection by a list",
            "{% set y = range(100000) | list | select('in', range(200000, 300000) | list) | list %}"
                .to_owned(),
        ),
        ("a long key", long(24, "{% set y = {ns.x: 1} %}")),
        ("a key looked up", long(24, "{% set y = {}[ns.x] %}")),
        ("a key got", long(24, "{% set y = {}.get(ns.x) %}")),
        ("the last character", long(24, "{% set y = ns.x[-1] %}")),
        ("the attribute of a filter", long(24, "{% set y = [1] | map(attribute=ns.x) | list %}")),
        ("the stripped characters", long(20, "{% set y = ns.x.strip(ns.x) %}")),
        ("changes in a loop", long(24, "{% if loop.changed(ns.x) %}{% endif %}")),
        ("sort", long(20, "{% set y = ([ns.x] * 1000) | sort %}")),
        ("unique", long(20, "{% set y = ([ns.x] * 1000) | unique %}")),
        ("namespaces", repeated("dict(a=1)", 100_000, "{% set ns.z = ns.z + [namespace(ns.x)] %}")),
        ("few pieces, kept", long(20, "{% set ns.z = ns.z + [ns.x.split('b')] %}")),
        ("few lines, kept", long(20, "{% set ns.z = ns.z + [ns.x.splitlines()] %}")),
        (
            "pairs, kept",
            format!(
                "{{% set ns = namespace(z=[]) %}}{{% set m = {{ {} }} %}}",
                (0..20_000).map(|i| format!("{i}:x,")).collect::<String>()
            ) + &repeated_more("{% set ns.z = ns.z + [m | dictsort, m.items(), m | items] %}"),
        ),
        ("the width of a field", "{{ '{:>9999999999}'.format(1) }}".to_owned()),
        ("loops over a text", long(24, "{% for c in ns.x %}{% break %}{% endfor %}")),
        (
            "loops over a map",
            format!("{{% set m = {{ {} }} %}}", (0..20_000).map(|i| format!("{i}:x,")).collect::<String>())
                + &repeated_more("{% for c in m %}{% break %}{% endfor %}"),
        ),
        (
            "recursive loops",
            long(
                24,
                "{% for c in [1, ns.x] recursive %}{% if c == 1 %}{{ loop(ns.x) }}{% endif %}{% break %}{% endfor %}",
            ),
        ),
        (
            "long names",
            format!(
                "{{% for i in range(100000) %}}{{{{ {0} }}}}{{{{ messages.{0} }}}}{{% endfor %}}",
                "m".repeat(100_000)
            ),
        ),
        (
            "long names of arguments",
            format!(
                "{{% for i in range(100000) %}}{{% set x = dict({}=i) %}}{{% endfor %}}",
                "m".repeat(100_000)
            ),
        ),
        (
            "many parameters",
            format!(
                "{{% for i in range(100000) %}}{{% macro m({}b) %}}{{% endmacro %}}{{% endfor %}}",
                "a,".repeat(100_000)
            ),
        ),
        ("arguments of any number", repeated_more("{% set x = '{}'.format(*range(100000)) %}")),
        ("the width of a printed field", "{{ '%9999999999d' | format(1) }}".to_owned()),
        ("the width from an argument", "{{ '%*d' | format(9999999999, 1) }}".to_owned()),
        ("a text printed often", repeated("'aaaa'", 100, &set("'%s%s%s' | format(ns.x, ns.x, ns.x)"))),
        ("the width of the time", "{{ strftime_now('%9999999999d') }}".to_owned()),
        ("the sum from a text", repeated("['a']", 20, &set("ns.x + ns.x")) + "{{ ns.x | sum(start='') }}"),
    ]
}

/// The peak memory of this process, if the system reports it.
fn peak_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok().map(|kilobytes| kilobytes * 1024)
}

#[test]
fn no_template_takes_all_memory_or_time() {
    let mut wrong = Vec::new();
    for (name, source) in bombs() {
        let start = Instant::now();
        let result = render(&source);
        let took = start.elapsed();
        let named = match &result {
            // All others exceed a limit, and the error says so.
            Err(Error::TooMuchWork { line } | Error::TooMuchTime { line }) => *line > 0,
            Err(Error::TooManySteps { .. }) => name == "namespaces",
            Err(Error::Syntax { line, .. }) => {
                *line > 0
                    && ["constant", "long names", "many", "arguments of"]
                        .iter()
                        .any(|start| name.starts_with(start))
            }
            Err(Error::Render { .. }) => name.starts_with("the "),
            _ => false,
        };
        println!("{name}: {took:?}, {:?} MB", peak_bytes().map(|bytes| bytes >> 20));
        if !named || took > Duration::from_secs(50) {
            wrong.push(format!("{name} took {took:?}: {:.200}", format!("{result:?}")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(peak_bytes().is_none_or(|bytes| bytes < 500_000_000), "{:?}", peak_bytes());
}

#[test]
fn the_error_names_the_limit_and_what_to_do() {
    let error = render("\n{% set x = 'a' * 999999999 * messages | length %}").expect_err("too much");
    let error = error.to_string();
    assert!(error.contains("chat template") && error.contains("a prompt without it"), "{error}");
    let error = render(&repeated("'a'", 100, "\n{% set ns.x = ns.x ~ ns.x %}")).expect_err("too much");
    assert!(matches!(error, Error::TooMuchWork { line: 2 }), "{error:?}");
    let error = error.to_string();
    assert!(
        error.contains(&chat::MAX_WORK_BYTES.to_string()) && error.contains("a prompt without it"),
        "{error}"
    );
}

#[test]
fn a_long_conversation_is_not_a_bomb() {
    let source = "{% for m in messages %}{{ '<|' + m.role + '|>' + m['content'] | trim + '\n' }}{% endfor %}";
    let template = Template::new(source, Specials::default()).expect("a good template");
    let long = "A sentence. ".repeat(350_000);
    let messages = [Message::new("system", "short"), Message::new("user", &long)];
    let prompt = template.render(&messages, &Options::default()).expect("4 MB is fine").to_string();
    assert!(prompt.len() > long.trim().len());
    let many: Vec<_> = (0..5000).map(|_| Message::new("user", "some words of nobody's")).collect();
    assert!(template.render(&many, &Options::default()).is_ok());
}

/// Operands that Python's operators refuse are refused; the goldens cover results.
#[test]
fn operators_refuse_what_they_cannot_do() {
    for expression in ["'a' + n", "nothing + 'b'", "(n, 2) + [3]", "'a' * 'b'", "[1] * 1.5", "'ab'[::0]"] {
        let found = render(&format!("{{% set n = messages | length %}}{{{{ {expression} }}}}"));
        assert!(matches!(found, Err(Error::Render { line: 1, .. })), "{expression}: {found:?}");
    }
}
